"""Transformers from Hugging Face folders: their architecture, their weights, and export."""

from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters, save

__all__ = ["load_parameters", "read_policy", "save"]
