"""Writes the samples in this folder with pyarrow 26.0.1, fastparquet 2026.9.0 and pandas 3.1.1.

Run it in an empty folder: the encrypted files differ in every run.
"""

import base64

import fastparquet
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

ID = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Kms(pe.KmsClient):
    """Wraps a key by encoding it: the samples hide nothing."""

    def __init__(self, _config):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key, master):
        return base64.b64encode(master.encode() + key)

    def unwrap_key(self, wrapped, master):
        return base64.b64decode(wrapped)[len(master) :]


def encrypted(name, columns, plaintext_footer):
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": columns}, plaintext_footer=plaintext_footer
    )
    properties = pe.CryptoFactory(Kms).file_encryption_properties(pe.KmsConnectionConfig(), config)
    # pyarrow writes no filters into such a file.
    table = pa.table({"id": range(100), "secret": range(1000, 1100)})
    pq.write_table(table, name, encryption_properties=properties)


def table(ids, names):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}, schema=ID)


pq.write_table(table([], []), "pyarrow-empty.parquet")
with pq.ParquetWriter("pyarrow-no-row-groups.parquet", ID):
    pass
with pq.ParquetWriter("pyarrow-empty-row-group.parquet", ID) as writer:
    for rows in (([1, 2, 3], ["a", "b", "c"]), ([], []), ([4, 5], ["a", None])):
        writer.write_table(table(*rows))
nulls = pa.table(
    {
        "id": pa.array([None] * 10, pa.int64()),
        "list": pa.array([[]] * 5 + [None] * 5, pa.list_(pa.int64())),
    }
)
filters = {"id": {"ndv": 10}}
pq.write_table(nulls, "pyarrow-nulls.parquet", write_statistics=False, bloom_filter_options=filters)
pd.DataFrame({"id": pd.Series([], dtype="int64")}).to_parquet("pandas-empty.parquet")
fastparquet.write(
    "fastparquet-empty.parquet", pd.DataFrame({"id": pd.Series([], dtype="int64")}), write_index=False
)
encrypted("pyarrow-encrypted-column.parquet", ["secret"], True)
encrypted("pyarrow-encrypted-footer.parquet", ["secret"], False)
