/*
 * main - nibd: its commands, help and version.
 *
 * Exit status: 0 after an orderly end, 1 for a failure or a second signal, 2
 * for a command line that was not understood.
 */
#include "daemon/echo.h"
#include "daemon/hub.h"
#include "daemon/serve.h"
#include "daemon/settings.h"

#include <stdio.h>
#include <string.h>

enum { USAGE_STATUS = 2 };

static int configure_hub(struct nib_config *cfg,
                         const struct settings *settings)
{
    return hub_configure(cfg, settings->path);
}

static int configure_echo(struct nib_config *cfg,
                          const struct settings *settings)
{
    (void)settings;
    return echo_configure(cfg);
}

static const struct {
    const char *name;
    const char *help;
    enum settings_command settings;
    serve_configure_fn *configure;
} commands[] = {
    {"hub", "a chat server: everyone hears everyone", SETTINGS_HUB,
     configure_hub},
    {"echo", "every message comes back to its sender", SETTINGS_ECHO,
     configure_echo},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *file)
{
    fputs("Usage: nibd COMMAND [OPTION]... [addr:]port\n"
          "       nibd --help | --version\n\n",
          file);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-6s %s\n", commands[i].name, commands[i].help);
    fputs("\n'nibd COMMAND --help' lists a command's options.\n", file);
}

/* An exit status: 1 if stdout did not take what was written to it. */
static int written(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    struct settings settings;

    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(word, commands[i].name) != 0)
            continue;
        settings_read(commands[i].settings, argc - 1, argv + 1, &settings);
        return serve(&settings, commands[i].configure);
    }
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        print_usage(stdout);
        return written();
    }
    if (strcmp(word, "--version") == 0) {
        puts("nibd (nib) " PACKAGE_VERSION);
        return written();
    }
    if (*word == '\0')
        fputs("nibd: expected a command\n\n", stderr);
    else
        fprintf(stderr, "nibd: '%s' is not a command\n\n", word);
    print_usage(stderr);
    return USAGE_STATUS;
}
