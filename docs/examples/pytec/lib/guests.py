"""The guest book: a SQLite database beside the system's temporary files."""

import os
import sqlite3
import tempfile

FILE = os.path.join(tempfile.gettempdir(), f"guestbook-{os.getuid()}.db")

# One connection for each process; it is kept from one request to the next.
connection = sqlite3.connect(FILE, timeout=2, isolation_level=None)
connection.execute(
    "create table if not exists guests (name text not null, text text not null, at text not null default current_timestamp)"
)


def mistake(name, text):
    """What is wrong with an entry, or None."""
    if not name.strip() or not text.strip():
        return "Please write a name and a text."
    if len(name) > 100 or len(text) > 2000:
        return "A name has at most 100 characters, a text 2,000."
    return None


def add(name, text):
    connection.execute("insert into guests (name, text) values (?, ?)", (name, text))


def latest(count):
    return connection.execute("select name, text, at from guests order by rowid desc limit ?", (count,)).fetchall()
