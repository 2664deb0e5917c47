"""A language model small enough for any CPU, and a tokenizer for it, both made here: nothing is downloaded.

The model is a Qwen2 of about 50 000 parameters with random weights (hidden size 48, 2 layers, 2 heads), the tokenizer
reads one character at a time. Both are ordinary transformers objects, so that TRL treats them as it would a large one.
"""

from __future__ import annotations

import copy

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlwatch.lab.task import LETTERS

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
"""The tokens that are not characters: padding, the end of an answer, and a character that is not in the alphabet."""

CHARACTERS = "0123456789" + LETTERS
"""Every character the tokenizer knows; a character is a token."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token a character, padding on the left, and no token added at the start or the end.

    Its vocabulary is `<pad>`, `<end>`, `<unk>`, the ten digits and the letters a to l: 25 tokens.
    """
    vocabulary = {token: i for i, token in enumerate([PAD, END, UNKNOWN, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def make_config(tokenizer: PreTrainedTokenizerFast) -> Qwen2Config:
    """The shape of the policy: Qwen2, hidden size 48, 2 layers, 2 heads; about 50 000 parameters."""
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )


def make_model(config: Qwen2Config, *, seed: int) -> Qwen2ForCausalLM:
    """A new model with random weights that depend on `seed` alone; torch's own random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(copy.deepcopy(config))
