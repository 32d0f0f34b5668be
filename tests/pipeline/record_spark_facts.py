"""What `odradek pipeline check` knows of Spark, asked of the PySpark releases that are tested.

`python -m tests.pipeline.record_spark_facts` writes the files in pipeline/check: of a function or
setting that several releases have, the facts of the newest one.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

from odradek.pipeline.check.facts import FUNCTIONS_FILE, SETTINGS_FILE
from tests.support import newest_pyspark

PROGRAM: Final = Path(__file__).parent / "java" / "SparkFacts.java"
SETTING: Final = re.compile(rb"spark(?:\.[A-Za-z][A-Za-z0-9_-]*)+")
CLASS_NAME: Final = re.compile(r"\.[A-Z]\w+(\.|$)")
OF_VALUES: Final = ("date_part", "datepart", "median")
"""Functions whose result has a type that depends on values, or on types that are not tried."""
OPENED: Final = ("lang", "lang.invoke", "net", "nio", "util", "util.concurrent")


def asked(jars: Path) -> list[str]:
    """The lines that the program prints with the jars of a PySpark."""
    opens = [f"--add-opens=java.base/java.{one}=ALL-UNNAMED" for one in OPENED]
    opens.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
    command = ["java", *opens, "-cp", f"{jars}/*", str(PROGRAM)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "\t" in line]


def named_settings(jars: Path) -> Iterator[str]:
    """The settings that Spark's classes name."""
    for jar in sorted(jars.glob("spark-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class"):
                    names = {one.decode() for one in SETTING.findall(archive.read(entry))}
                    yield from (one for one in names if CLASS_NAME.search(one) is None)


def sure(fact: str) -> str:
    """A function's line with an unknown type of the result where one sample is not enough."""
    name, least, most, result, *accepts = fact.split("\t")
    is_sample = result == "ARRAY<STRING>" and not {"any", "string"} & set(
        "".join(accepts[:1]).split(",")
    )
    if name in OF_VALUES or is_sample or result.startswith("DECIMAL"):
        result = "?"
    return "\t".join([name, least, most, result, *accepts])


def main() -> None:
    """Write the files."""
    newest = newest_pyspark.python().parents[1]
    folders = [
        Path(pyspark.__file__).parent / "jars",
        *newest.glob("lib/*/site-packages/pyspark/jars"),
    ]
    functions: dict[str, str] = {}
    settings: set[str] = set()
    for jars in folders:
        settings |= set(named_settings(jars))
        for line in asked(jars):
            what, _, fact = line.partition("\t")
            if what == "function":
                functions[fact.partition("\t")[0]] = sure(fact)
            elif what == "setting":
                settings.add(fact)
    FUNCTIONS_FILE.write_text("".join(functions[name] + "\n" for name in sorted(functions)))
    SETTINGS_FILE.write_text("".join(f"{name}\n" for name in sorted(settings)))


if __name__ == "__main__":
    main()
