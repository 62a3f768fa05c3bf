"""A collector of traces for tests: it decodes requests of OTLP with opentelemetry-proto. GET /spans
returns the spans so far, POST /answers a list of answers for the next requests of traces. It needs
the package opentelemetry-proto and prints its port. Not a test by itself."""
import http.server
import json
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

spans, answers, lock = [], [], threading.Lock()  # answers: [status, headers] each


def value(v):
    return getattr(v, v.WhichOneof("value"))


def attributes(list_):
    """Return the attributes as a dictionary, because names must be unique."""
    found = {a.key: value(a.value) for a in list_}
    assert len(found) == len(list_), [a.key for a in list_]
    return found


def decoded(body):
    """Return the spans of a request. Its bytes must be those that protobuf writes."""
    request = ExportTraceServiceRequest.FromString(body)
    assert request.SerializeToString(deterministic=True) == body, "other bytes than protobuf's"
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for s in scope.spans:
                assert len(s.trace_id) == 16 and len(s.span_id) == 8 and len(s.parent_span_id) in (0, 8)
                yield {"trace": s.trace_id.hex(), "span": s.span_id.hex(), "parent": s.parent_span_id.hex(), "state": s.trace_state, "name": s.name,
                       "kind": s.kind, "begin": s.start_time_unix_nano, "end": s.end_time_unix_nano, "attributes": attributes(s.attributes),
                       "status": s.status.code, "flags": s.flags, "resource": attributes(resource.resource.attributes), "scope": scope.scope.name}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with lock:
            self.reply(200, json.dumps(spans).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            if self.path == "/answers":
                answers.extend(json.loads(body))
                self.reply(200)
            elif self.path != "/v1/traces" or self.headers["Content-Type"] != "application/x-protobuf":
                self.reply(404)
            elif answers and answers[0][0] != 200:
                self.reply(answers[0][0], headers=answers.pop(0)[1])
            else:
                try:
                    spans.extend({**s, "headers": dict(self.headers)} for s in decoded(body))
                except Exception as e:
                    spans.append({"error": repr(e)})
                self.reply(200, ExportTraceServiceResponse().SerializeToString(), {"Content-Type": "application/x-protobuf"})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
