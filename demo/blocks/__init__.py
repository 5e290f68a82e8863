"""The four faults, one module each: what is done, and what is measured."""
