"""Reading of answers in text: spelling, numbers, arithmetic, stop strings, processes of verifiers.

Modules that read expressions, numbers and words need only the standard library, so that processes import little.
"""
