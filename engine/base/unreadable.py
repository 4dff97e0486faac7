"""Errors that msgspec raises for bytes that are not the JSON that was expected, whoever wrote them.

An invalid text inside raises UnicodeDecodeError, and thousands of brackets RecursionError: neither is a DecodeError.
"""

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
