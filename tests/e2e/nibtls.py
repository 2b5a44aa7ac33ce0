"""nibtls - what the tests of TLS share: certificates, and contexts of clients.

    AUTHORITY = nibtls.Authority("nib test CA")
    pair = AUTHORITY.issue("localhost")
    with nibtest.Server("nibd", "echo", *pair.options(), "127.0.0.1:0",
                        tls=AUTHORITY.context()) as server:
        with nibtest.Peer(server) as peer:
            ...

The files are made by openssl when they are asked for, in a folder that goes at
the end of the script.
"""

import atexit
import itertools
import os
import shutil
import ssl
import subprocess
import tempfile

import nibtest

FOLDER = tempfile.mkdtemp(prefix="nib-tls-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

_numbers = itertools.count()


def need():
    """Ends the script by a skip if nib was built without TLS, which is no
    fault, or if openssl is missing."""
    _, _, errors = nibtest.command("nib", "wss://127.0.0.1:1/")
    if "built without TLS" in errors:
        print("1..0 # SKIP nib was built without TLS", flush=True)
        raise SystemExit(0)
    if not shutil.which("openssl"):
        nibtest.skip_all("openssl is not installed (Debian: openssl)")


def has_tls13():
    """Can nib's TLS library speak TLS 1.3?"""
    status, _, errors = nibtest.command("nibd", "echo", "--cert", "/nowhere",
                                        "--tls-version", "1.3", "127.0.0.1:0")
    if status == 2 and "does not speak it" in errors:
        return False
    nibtest.equal(status, 1, "status without a certificate's file")
    return True


def path(name):
    """A file's name in the folder."""
    return os.path.join(FOLDER, name)


def write(name, data):
    """Writes a file into the folder, in one step; returns its name."""
    with open(path(name) + ".new", "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    os.replace(path(name) + ".new", path(name))
    return path(name)


def read(name):
    """The contents of a file."""
    with open(name, "rb") as file:
        return file.read()


def openssl(*args, data=b""):
    """Runs openssl, which must succeed; returns what it prints."""
    done = subprocess.run(["openssl", *args], input=data, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=nibtest.PATIENCE)
    if done.returncode != 0:
        raise AssertionError("openssl %s: %s" % (" ".join(args),
                                                 done.stderr.decode()))
    return done.stdout


class Pair:
    """A certificate and its key, in two files."""

    def __init__(self, cert, key):
        self.cert = cert
        self.key = key

    def options(self):
        """For the command line of a server."""
        return "--cert", self.cert, "--key", self.key

    def der(self):
        """The first certificate, as a client gets it."""
        return ssl.PEM_cert_to_DER_cert(read(self.cert).decode())


def _new_key(kind, password=None):
    key = path("key-%d.pem" % next(_numbers))
    if kind == "rsa":
        openssl("genrsa", "-out", key, "2048")
    else:
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out",
                key)
    if password:  # in the form that every TLS library reads
        openssl(kind, "-in", key, "-aes256", "-passout", "pass:" + password,
                "-out", key)
    return key


class Authority(Pair):
    """A CA that signs certificates for servers and clients."""

    def __init__(self, name):
        super().__init__(path("ca-%d.pem" % next(_numbers)), _new_key("ec"))
        openssl("req", "-x509", "-new", "-key", self.key, "-out", self.cert,
                "-days", "30", "-subj", "/CN=" + name)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=30,
              kind="ec", password=None):
        """A Pair of a certificate for /CN=name with these alternative names.
        days may be negative: it has expired then."""
        key = _new_key(kind, password)
        cert = path("cert-%d.pem" % next(_numbers))
        secret = ["-passin", "pass:" + password] if password else []
        request = openssl("req", "-new", "-key", key, *secret, "-subj",
                          "/CN=" + name)
        extensions = write("extensions", "subjectAltName=%s\n" % names)
        openssl("x509", "-req", "-CA", self.cert, "-CAkey", self.key,
                "-set_serial", str(next(_numbers) + 1), "-days", str(days),
                "-extfile", extensions, "-out", cert, data=request)
        return Pair(cert, key)

    def context(self, client=None, highest=None):
        """A client's context that trusts this CA alone; with a Pair for the
        client; and with a highest version, ssl.TLSVersion."""
        context = ssl.create_default_context(cafile=self.cert)
        if client:
            context.load_cert_chain(client.cert, client.key)
        if highest:
            context.maximum_version = highest
        return context
