"""Checks of arguments, fields, texts and files: bad input is refused in one sentence at the earliest moment."""
