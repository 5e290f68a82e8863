"""Measurements of effectd on the machine at hand, each a ratio against something beside it.

An absolute time on somebody's machine means little. So whatever is measured here is measured
together with a floor (a process that is started without any sandbox) and with a peer, turn by turn
in the same run, several runs in a row; medians and 99th percentiles are what is compared.
"""
