# embed.awk - makes a C file of a text file.
#
#   awk -v name=page_html -v header=daemon/page.h -f embed.awk page.html
#
# The result defines `const char NAME[]`, which holds the text and a NUL, and
# `const size_t NAME_bytes`, its length without that. The text must be plain
# ASCII without tabs: about the rest awks do not agree.

BEGIN {
    printf "/* Made by embed.awk. */\n"
    printf "#include \"%s\"\n\nconst char %s[] =", header, name
}

/[^ -~]/ {
    printf "embed.awk: %s:%d: not plain ASCII\n", FILENAME, FNR >"/dev/stderr"
    failed = 1
    exit
}

{
    gsub(/[\\"?]/, "\\\\&") # "?", as "??=" would be a trigraph
    printf "\n    \"%s\\n\"", $0
}

END {
    if (failed)
        exit 1
    printf ";\n\nconst size_t %s_bytes = sizeof(%s) - 1;\n", name, name
}
