#!/bin/sh
# certs - certificates and keys for tests.
#
#   tests/tls/certs.sh FOLDER
#
# Makes NAME.pem and NAME.key for each of:
#
#   localhost   localhost, 127.0.0.1, ::1           by ca
#   other       other.example, *.wild.example       by ca
#   rsa         localhost, with an RSA key          by ca
#   expired, future                                 by ca
#   client      Alice                               by client-ca
#   mail        no common name, bob@other.example   by client-ca
#   late        Alice, but expired                  by client-ca
#   misuse      Alice, but for servers              by client-ca
#   foreign     Alice                               by foreign-ca
#
# and locked.key, which is localhost.key under the password "secret",
# whole.pem, which is localhost's certificate and key in one,
# both-ca.pem, which is client-ca and foreign-ca, and
# damaged.pem and damaged.key. The keys are ECDSA P-256 where nothing else is
# said.
set -eu
cd "$1"
export LC_ALL=C

quietly() {
    "$@" >>certs.log 2>&1 || { cat certs.log >&2; exit 1; }
}

new_key() {
    quietly openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
}

# authority NAME
authority() {
    new_key "$1"
    quietly openssl req -x509 -new -key "$1.key" -out "$1.pem" -days 30 \
        -subj "/O=nib/CN=$1" -sha256
    : >"$1.index"
    cat >"$1.conf" <<END
[ca]
default_ca = authority
[authority]
database = $1.index
new_certs_dir = .
rand_serial = yes
certificate = $1.pem
private_key = $1.key
default_md = sha256
unique_subject = no
policy = policy
email_in_dn = no
[policy]
organizationName = optional
commonName = optional
END
}

# sign AUTHORITY NAME SUBJECT EXTENSION... [-- FROM TO], with NAME.key. From a
# day ago, so that no clock matters.
sign() {
    authority=$1 name=$2 subject=$3
    shift 3
    from=$(date -u -d '-1 day' +%Y%m%d%H%M%SZ)
    to=$(date -u -d '+30 days' +%Y%m%d%H%M%SZ)
    : >"$name.ext"
    while [ $# -gt 0 ]; do
        if [ "$1" = -- ]; then
            from=$2 to=$3
            break
        fi
        echo "$1" >>"$name.ext"
        shift
    done
    quietly openssl req -new -key "$name.key" -out "$name.csr" \
        -subj "$subject"
    quietly openssl ca -config "$authority.conf" -batch -notext \
        -in "$name.csr" -out "$name.pem" -extfile "$name.ext" \
        -startdate "$from" -enddate "$to"
}

server='extendedKeyUsage = serverAuth'
client='extendedKeyUsage = clientAuth'
home='subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1'

authority ca
new_key localhost
sign ca localhost /CN=localhost "$home" "$server"
new_key other
sign ca other /CN=other.example "$server" \
    'subjectAltName = DNS:other.example, DNS:*.wild.example'
quietly openssl genrsa -out rsa.key 2048
sign ca rsa /CN=localhost "$home" "$server"
new_key expired
sign ca expired /CN=localhost "$home" -- 20200101000000Z 20210101000000Z
new_key future
sign ca future /CN=localhost "$home" -- 20480101000000Z 20490101000000Z

authority client-ca
new_key client
sign client-ca client /O=nib/CN=Alice "$client"
new_key mail
sign client-ca mail /O=nib "$client" 'subjectAltName = email:bob@other.example'
new_key late
sign client-ca late /O=nib/CN=Alice "$client" -- \
    20200101000000Z 20210101000000Z
new_key misuse
sign client-ca misuse /O=nib/CN=Alice "$server"
authority foreign-ca
new_key foreign
sign foreign-ca foreign /O=nib/CN=Alice "$client"

quietly openssl ec -in localhost.key -aes256 -passout pass:secret \
    -out locked.key
cat localhost.pem localhost.key >whole.pem
cat client-ca.pem foreign-ca.pem >both-ca.pem
sed '3s/./!/' localhost.pem >damaged.pem
sed '3s/./!/' localhost.key >damaged.key
rm -f ./*.csr ./*.ext ./*.conf ./*.index* ./[0-9A-F]*.pem certs.log
