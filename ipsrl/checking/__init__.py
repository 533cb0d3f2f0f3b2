"""What arguments, fields, texts and files may be: bad input is refused in one sentence at the earliest moment."""
