"""Reading of answers in text: spelling, numbers, arithmetic, stop strings, processes of verifiers."""
