# SPDX-License-Identifier: Apache-2.0
"""One file per analyzer. A file is copied into the folders of tokenizers that use it, so it imports nothing of this
package. It defines

- `LIBRARY`: the name to `pip install`, empty where it needs none;
- `STYLES`: the spellings it can give, out of `morpheme.STYLES`;
- `USER_TAGS`: the tags that words of a user dictionary may have; () where it takes none;
- `version() -> str`: the library and its model, since another one segments differently;
- `tokens(texts, style, user_words, num_workers)`: for each text (one line, NFC, none invisible) its columns
  `(starts, ends, sentences, spellings)`: lists of one length, `spellings` None in the styles `surface` and `none`.
  `user_words` are (form, tag, score).

Importing it raises ImportError, with what to install, where its library is missing.
"""
