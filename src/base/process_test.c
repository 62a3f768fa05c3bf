/* process_test.c - goal: a process's resource usage is measured. Method: change the usage and read
 * it again. */
#include "../../tests/unit.h"

#include "os.h"
#include "process.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TEST(process_usage_follows_what_is_used)
{
    enum { N_BYTE = 64 << 20 };
    struct process_usage before, after;
    process_usage(&before);
    int64_t now = time_wall_us() / 1000000;
    EXPECT(before.start_s > now - 864000 && before.start_s <= now + 2);
    EXPECT(before.cpu_us > 0 && before.n_fd >= 3 && before.fd_max >= before.n_fd);
    EXPECT(before.resident_bytes > 1 << 20 && before.virtual_bytes >= before.resident_bytes);
    char *p = os_alloc(N_BYTE);
    NEED(p);
    memset(p, 1, N_BYTE);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    process_usage(&after);
    EXPECT_INT(after.n_fd, before.n_fd + 1);
    EXPECT(after.resident_bytes - before.resident_bytes > N_BYTE / 2);
    EXPECT(after.cpu_us >= before.cpu_us && after.start_s == before.start_s);
    close(fd);
    os_free(p, N_BYTE);
}
