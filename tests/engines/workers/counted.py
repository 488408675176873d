"""Counts the bytes that an engine asks for, with an HTTP server that serves ranges of files."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Server:
    """Serves the files of one folder on the loopback interface."""

    def __init__(self, folder):
        self.read_bytes = 0
        self.lock = threading.Lock()
        handler = type("Handler", (RangeHandler,), {"counter": self, "folder": folder})
        self.server = Listener(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def add(self, num):
        with self.lock:
            self.read_bytes += num

    def close(self):
        self.server.shutdown()


class RangeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def path_and_size(self):
        path = os.path.join(self.folder, os.path.basename(self.path))
        return path, os.path.getsize(path)

    def head(self, status, length, extra=()):
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(length))
        for name, value in extra:
            self.send_header(name, value)
        self.end_headers()

    def do_HEAD(self):
        self.head(200, self.path_and_size()[1])

    def do_GET(self):
        path, size = self.path_and_size()
        wanted = self.headers.get("Range")
        if wanted is None:
            return self.send(path, 0, size, 200, [])
        first, last = wanted.removeprefix("bytes=").split("-")
        if first == "":
            start, end = max(0, size - int(last)), size
        else:
            start, end = int(first), min(size, int(last) + 1 if last else size)
        self.send(path, start, end, 206, [("Content-Range", f"bytes {start}-{end - 1}/{size}")])

    def send(self, path, start, end, status, extra):
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(end - start)
        self.counter.add(len(data))
        self.head(status, len(data), extra)
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True
