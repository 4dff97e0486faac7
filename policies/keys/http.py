"""raymirror's own keys of the HTTP server: port, users, TLS."""

from policies.keys.read_key import ReadKey

TITLE = "The HTTP server"
ROWS = (
    ReadKey(
        "raymirror.http.port",
        "top",
        "0",
        (
            "the mirror's HTTP server on the node of its supervisor: Connect's REST interface, metrics, probes"
            " ([docs/rest.md](../docs/rest.md)); 0: none"
        ),
        "dedicated MM2 has no public REST",
    ),
    ReadKey(
        "raymirror.http.bind",
        "top",
        "127.0.0.1",
        (
            "the IP address of that port; `node`: that of each Ray node. Any but a loopback address is refused without"
            " `raymirror.http.users`"
        ),
    ),
    ReadKey(
        "raymirror.http.nodes",
        "top",
        "head",
        (
            "`head`: only the node of the supervisor listens; `all`: the other Ray nodes too, each with a process that"
            " forwards to it. `all` needs `raymirror.http.bind` to be `node`, `0.0.0.0` or `::`"
        ),
        "Connect: each worker forwards to its leader",
    ),
    ReadKey(
        "raymirror.http.users",
        "top",
        "none",
        "names of users. Without it everybody who reaches the port may do everything",
        "Connect: a REST extension",
    ),
    ReadKey(
        "raymirror.http.user.NAME.role",
        "top",
        "view",
        "`view`, `operate` (also pause, resume, stop, restart) or `admin`",
    ),
    ReadKey(
        "raymirror.http.user.NAME.password",
        "top",
        "none",
        "for basic authentication; write `${file:PATH:KEY}` or `${env:NAME}`",
    ),
    ReadKey(
        "raymirror.http.user.NAME.token",
        "top",
        "none",
        "for bearer authentication; each user needs a password, a token, or both",
    ),
    ReadKey(
        "raymirror.http.tls.certificate",
        "top",
        "none",
        "a PEM file with the certificate chain of the server; with it, the port speaks TLS only",
        "Connect: `listeners.https.ssl.*`",
    ),
    ReadKey("raymirror.http.tls.key", "top", "the file of the certificate", "a PEM file with its private key"),
    ReadKey("raymirror.http.tls.key.password", "top", "none", "the password of that key; write a placeholder"),
    ReadKey(
        "raymirror.http.tls.client.ca",
        "top",
        "none",
        "a PEM file of authorities; a client then also needs a certificate of one of them",
        "Connect: `ssl.client.auth=required`",
    ),
)
