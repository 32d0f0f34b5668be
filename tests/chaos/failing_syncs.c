/* Preloaded into a broker: fsync and fdatasync fail with EIO for files below one directory.

   FAILING_SYNCS names a file.  While it exists, it contains that directory.  Each call for a file
   below a directory for which a call of this process has failed before, or fails now, adds a line
   to the file with `.calls` appended to its name: PID failed|passed PATH. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char failed[PATH_MAX];

static ssize_t content(const char *name, char *text)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, PATH_MAX - 1);
    close(fd);
    return size < 0 ? 0 : size;
}

static int is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    return size && !strncmp(path, directory, size) && (path[size] == '/' || !path[size]);
}

static void note(const char *control, const char *what, const char *path)
{
    char name[PATH_MAX + 8], line[PATH_MAX + 32];
    snprintf(name, sizeof name, "%s.calls", control);
    int size = snprintf(line, sizeof line, "%d %s %s\n", (int)getpid(), what, path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)size) < 0)
        abort();
    close(fd);
}

static int synced(int fd, long call)
{
    const char *control = getenv("FAILING_SYNCS");
    char link[32], path[PATH_MAX] = "", directory[PATH_MAX] = "";
    if (control) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, PATH_MAX - 1) > 0 && content(control, directory)
            && is_below(path, directory)) {
            strcpy(failed, directory);
            note(control, "failed", path);
            errno = EIO;
            return -1;
        }
        if (is_below(path, failed))
            note(control, "passed", path);
    }
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return synced(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return synced(fd, SYS_fdatasync);
}
