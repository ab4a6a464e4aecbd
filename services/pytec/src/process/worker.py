# The worker process: runs pages that the server sends, one at a time, until the server's end.
#
# Protocol, version 1. A frame is two big-endian 32-bit lengths, a JSON object (the head) of the
# first length, and bytes (the body) of the second. The server sends `setup` once and is answered
# `ready` with the version; then it sends work (`page`), each answered by one `answer` or `error`.
# A head of an unknown kind is answered by `error`, so that other kinds of work can be added.
import ast
import builtins
import fcntl
import html
import importlib.abc
import importlib.util
import json
import os
import re
import resource
import signal
import socket
import sys
import traceback
import types

PROTOCOL = 1
# Line numbers of a page's code: the index of the file in the upper bits, the line in the lower.
LINE_BITS = 20
TRACE_FRAMES = 20
MESSAGE_CHARACTERS = 2000
# While a page is compiled: Python's parser makes trees three thousand levels deep, and each level
# counts as a call when they are compiled.
COMPILER_RECURSION_LIMIT = 4000
PAGE_FUNCTION = "page"
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
FRAMING = {"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
FLAGS_OF_GENERATORS = 0x20 | 0x80 | 0x200

escape = html.escape


class AnswerTooLarge(BaseException):
    """Not an Exception: a page that catches those does not go on."""


class Values:
    """Values by name, as a query or a form has them: the first one, or all of a name."""

    def __init__(self, pairs, fold=False):
        self._fold = fold
        self._values = {}
        for name, value in pairs:
            self._values.setdefault(self._key(name), []).append(value)

    def _key(self, name):
        return name.lower() if self._fold else name

    def get(self, name, default=None):
        values = self._values.get(self._key(name))
        return values[0] if values else default

    def all(self, name):
        return list(self._values.get(self._key(name), ()))

    def __getitem__(self, name):
        return self._values[self._key(name)][0]

    def __contains__(self, name):
        return self._key(name) in self._values

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def items(self):
        return [(name, values[0]) for name, values in self._values.items()]


class Request:
    def __init__(self, head, body):
        self.id = head["id"]
        self.method = head["method"]
        self.path = head["path"]
        self.query = Values(head["query"])
        self.form = Values(head["form"])
        self.headers = Values(head["headers"], fold=True)
        self.client = head["client"]
        self.class_name = head["class"]
        self.quality = head["quality"]
        self.values = head["values"]
        self.body = body

    @property
    def cookies(self):
        cookies = {}
        for field in self.headers.all("cookie"):
            for pair in field.split(";"):
                name, equals, value = pair.strip().partition("=")
                if equals:
                    cookies.setdefault(name, value.strip('"'))
        return cookies

    def get(self, name, default=None):
        """The value of this name: of the form, or else of the query."""
        return self.form[name] if name in self.form else self.query.get(name, default)


class Headers:
    def __init__(self):
        self._fields = []

    def add(self, name, value):
        name, value = str(name), str(value)
        if not TOKEN.match(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in FRAMING:
            raise ValueError(f"{name} is set by the server")
        if any(ord(character) < 32 or ord(character) > 126 for character in value):
            raise ValueError(f"the value of {name} has characters that a header cannot have: {value!r}")
        self._fields.append((name, value))

    def __setitem__(self, name, value):
        before = self._fields
        self._fields = [field for field in before if field[0].lower() != str(name).lower()]
        try:
            self.add(name, value)
        except ValueError:
            self._fields = before
            raise

    def get(self, name, default=None):
        found = [value for key, value in self._fields if key.lower() == name.lower()]
        return found[0] if found else default


class Response:
    def __init__(self, output):
        self._output = output
        self._status = 200
        self.headers = Headers()
        self.headers["Content-Type"] = "text/html; charset=utf-8"

    @property
    def status(self):
        return self._status

    @status.setter
    def status(self, status):
        if not isinstance(status, int) or not 200 <= status <= 599:
            raise ValueError(f"{status!r} is not a status between 200 and 599")
        self._status = status

    def cookie(self, name, value, path="/", max_age=None, http_only=True, same_site="Lax", secure=False):
        if not TOKEN.match(name):
            raise ValueError(f"{name!r} is not the name of a cookie")
        if re.search(r'[\s",;\\]', value):
            raise ValueError(f"the value of the cookie {name} has characters that a cookie cannot have: {value!r}")
        for attribute, text in (("path", path), ("same_site", same_site)):
            if ";" in str(text):
                raise ValueError(f"`{attribute}` of the cookie {name} has a semicolon: {text!r}")
        parts = [f"{name}={value}", f"Path={path}", f"SameSite={same_site}"]
        if max_age is not None:
            parts.append(f"Max-Age={int(max_age)}")
        parts += ["HttpOnly"] * http_only + ["Secure"] * secure
        self.headers.add("Set-Cookie", "; ".join(parts))

    def redirect(self, location, status=303):
        self.clear()
        self.status = status
        self.headers["Location"] = location

    def clear(self):
        """Discards what was written so far."""
        self._output.clear()


class Output:
    """What a page writes; stands in for sys.stdout while a page runs. A process has one for all of its
    pages: a module may keep the sys.stdout of the page that imported it."""

    encoding = "utf-8"

    def __init__(self, characters_max):
        self._characters_max = characters_max
        self.clear()

    def clear(self):
        self._texts = []
        self._characters = 0

    def write(self, text):
        if not isinstance(text, str):
            text = str(text)
        self._characters += len(text)
        if self._characters > self._characters_max:
            self._texts = []
            raise AnswerTooLarge(f"the answer is larger than {self._characters_max} bytes")
        self._texts.append(text)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def bytes(self):
        answer = "".join(self._texts).encode("utf-8", "replace")
        if len(answer) > self._characters_max:
            raise AnswerTooLarge(f"the answer is larger than {self._characters_max} bytes")
        return answer


class PageSyntaxError(Exception):
    def __init__(self, message, file, line):
        super().__init__(message)
        self.file, self.line = file, line


class CompiledPage:
    """A page as one function; each of its blocks is parsed alone, so that none can end in another."""

    PARAMETERS = ("req", "res", "write", "print", "escape", "error", "_pytec_html", "_pytec_value")

    def __init__(self, name, version, source):
        self.files = source["files"]
        self.file_name = f"pytec:{name}:{version}"
        body = []
        for kind, file, line, text in source["parts"]:
            body += self._statements(kind, file, line, text)
        arguments = ast.arguments(
            posonlyargs=[], args=[located(ast.arg(arg=name), 1) for name in self.PARAMETERS],
            kwonlyargs=[], kw_defaults=[], defaults=[])
        function = ast.FunctionDef(
            name=PAGE_FUNCTION, args=arguments, body=body or [located(ast.Pass(), 1)], decorator_list=[],
            type_params=[])
        module = ast.Module(body=[located(function, 1)], type_ignores=[])
        recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(recursion_limit, COMPILER_RECURSION_LIMIT))
        try:
            self.code = compile(module, self.file_name, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise PageSyntaxError(error_text(error), *self.place(error.lineno or 0))
        finally:
            sys.setrecursionlimit(recursion_limit)
        for constant in self.code.co_consts:
            if isinstance(constant, types.CodeType) and constant.co_flags & FLAGS_OF_GENERATORS:
                raise PageSyntaxError("SyntaxError: 'yield' outside function", *self.place(first_yield(body)))

    def place(self, number):
        return self.files[number >> LINE_BITS], number & ((1 << LINE_BITS) - 1)

    def _statements(self, kind, file, line, text):
        number = (file << LINE_BITS) + line
        if kind == "html":
            return [called("_pytec_html", located(ast.Constant(value=text), number), number)]
        try:
            if kind == "value":
                # In parentheses it may be of several lines.
                source = f"({text}\n)" if "\n" in text else text
                parsed = ast.parse(source, mode="eval")
            else:
                parsed = ast.parse(text)
        except SyntaxError as error:
            # The closing parenthesis stands on a line of its own, which the page does not have.
            at = min(line + max((error.lineno or 1), 1) - 1, line + text.count("\n"))
            raise PageSyntaxError(error_text(error), self.files[file], at)
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise PageSyntaxError(error_text(error), self.files[file], line)
        ast.increment_lineno(parsed, number - 1)
        return [called("_pytec_value", parsed.body, number)] if kind == "value" else parsed.body

    def run(self, request, response, output):
        namespace = {"__name__": PAGE_FUNCTION, "__file__": self.files[0], "__builtins__": builtins}
        exec(self.code, namespace)

        def write(*values):
            for value in values:
                output.write(value)

        def write_value(value):
            if value is not None:
                output.write(escape(str(value)))

        def error(message, status=400):
            response.clear()
            response.status = status
            output.write(f"<!doctype html><title>{status}</title><p>{escape(str(message))}</p>\n")

        # `print` writes to sys.stdout, which is the output.
        namespace[PAGE_FUNCTION](request, response, write, print, escape, error, output.write, write_value)


def called(name, argument, number):
    function = located(ast.Name(id=name, ctx=ast.Load()), number)
    call = located(ast.Call(func=function, args=[argument], keywords=[]), number)
    return located(ast.Expr(value=call), number)


def located(node, number):
    """The node, which no parser made, on this line. Not `fix_missing_locations`: it visits all nodes,
    those of the parser too, recursively."""
    node.lineno = node.end_lineno = number
    node.col_offset = node.end_col_offset = 0
    return node


def first_yield(body):
    """The line of the first yield outside of inner functions."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return node.lineno
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return body[0].lineno


def error_text(error):
    if isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {error.msg}"
    else:
        try:
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
        except BaseException:
            text = type(error).__name__
    return text[:MESSAGE_CHARACTERS]


class EmbeddedModules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Modules whose source the server sends."""

    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name in self._sources else None

    def get_source(self, name):
        return self._sources[name]

    def get_code(self, name):
        return compile(self._sources[name], f"{name}.py", "exec", dont_inherit=True)

    def is_package(self, name):
        return False


class Worker:
    def __init__(self, server):
        self._server = server
        self._pages = {}
        self._process = os.getpid()

    def _exactly(self, length):
        buffer = bytearray(length)
        view = memoryview(buffer)
        while length:
            read = self._server.recv_into(view[-length:])
            if not read:
                # The server has ended, or has no more work.
                os._exit(0)
            length -= read
        return buffer

    def receive(self):
        lengths = self._exactly(8)
        head = self._exactly(int.from_bytes(lengths[:4], "big"))
        body = self._exactly(int.from_bytes(lengths[4:], "big"))
        return json.loads(head), bytes(body)

    def send(self, head, body=b""):
        head = json.dumps(head).encode()
        self._server.sendall(len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)

    def set_up(self):
        setup, _ = self.receive()
        resource.setrlimit(resource.RLIMIT_AS, (setup["memory_bytes_max"],) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._output = Output(setup["answer_bytes_max"])
        os.chdir(setup["folder"])
        sys.path[:0] = setup["module_folders"]
        sys.meta_path.insert(0, EmbeddedModules(setup["modules"]))
        self.send({"kind": "ready", "protocol": PROTOCOL, "python": sys.version.split()[0]})

    def serve(self):
        while True:
            head, body = self.receive()
            if head["kind"] == "page":
                self.send(*self.page(head, body))
            else:
                self.send({"kind": "error", "file": "", "line": 0, "trace": [],
                           "message": f"unknown kind of work: {head['kind']}", "retire": False})

    def page(self, head, body):
        output = self._output
        output.clear()
        sys.stdout = output
        page = self._pages.get(head["page"])
        files = head["source"]["files"] if "source" in head else page.files
        try:
            if "source" in head:
                page = CompiledPage(head["page"], head["version"], head["source"])
                self._pages[head["page"]] = page
            if "request" not in head:
                # It was to be compiled alone.
                return {"kind": "answer", "status": 204, "headers": []}, b""
            request, response = Request(head["request"], body), Response(output)
            page.run(request, response, output)
            answer = output.bytes()
            head = {"kind": "answer", "status": response.status, "headers": response.headers._fields}
        except PageSyntaxError as error:
            self._pages.pop(head["page"], None)
            return error_head(str(error), error.file, error.line, [], False), b""
        except BaseException as error:
            output.clear()
            return self._run_time_error(page, files[0], error), b""
        finally:
            if os.getpid() != self._process:
                # The page has forked, and this is its child.
                os._exit(0)
            output.clear()
            sys.stdout = sys.__stdout__
        return head, answer

    def _run_time_error(self, page, file, error):
        # Of a process whose memory was full nothing is known.
        retire = isinstance(error, MemoryError)
        trace, place = [], (file, 0)
        for frame, line in traceback.walk_tb(error.__traceback__):
            code = frame.f_code
            if page is not None and code.co_filename == page.file_name:
                place = page.place(line)
                trace.append([*place, code.co_name])
            elif code.co_filename != __file__:
                trace.append([code.co_filename, line, code.co_name])
        if isinstance(error, SyntaxError) and error.filename:
            # A module that cannot be compiled has no frame.
            trace.append([str(error.filename), error.lineno or 0, "<module>"])
        error.__traceback__ = None
        return error_head(error_text(error), *place, trace[-TRACE_FRAMES:], retire)


def error_head(message, file, line, trace, retire):
    trace = [[encodable(file), line, encodable(name)] for file, line, name in trace]
    return {"kind": "error", "message": encodable(message), "file": encodable(file), "line": line,
            "trace": trace, "retire": retire}


def encodable(text):
    """Without lone surrogates, which UTF-8 cannot encode: the server would reject the answer."""
    return text.encode("utf-8", "replace").decode()


def main():
    # Descriptor 0 is the server's socket, 1 a pipe that ends with the server, 2 the log.
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    server = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    lifeline = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # When the server ends, by whatever cause, the kernel kills this process and its children,
    # whatever Python is doing.
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
    os.register_at_fork(after_in_child=server.close)
    worker = Worker(server)
    worker.set_up()
    worker.serve()


main()
