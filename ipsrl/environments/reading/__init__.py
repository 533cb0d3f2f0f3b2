"""How answers in text are read: spelling, numbers, arithmetic, stop strings, processes of verifiers."""
