import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, which sets permissions by a system call.  Hadoop starts `chmod` for
 * each file and folder, hundreds of processes in a test of a stream.
 */
public class LocalFiles extends LocalFileSystem {
  private static final PosixFilePermission[] FROM_HIGHEST_BIT = PosixFilePermission.values();

  public LocalFiles() {
    super(new Raw());
  }

  static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
      for (int place = 0; place < FROM_HIGHEST_BIT.length; place++) {
        if ((permission.toShort() & 0400 >> place) != 0) {
          permissions.add(FROM_HIGHEST_BIT[place]);
        }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), permissions);
    }
  }
}
