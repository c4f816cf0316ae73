/** A cache folder with the pieces of this machine, but with snapshots of its own. */
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readEnvironment } from '../../../setup/environment.ts';

export class OwnCache implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'voidbox-cache-'));
  readonly snapshots = join(this.path, 'snapshots');
  readonly variables = { VOIDBOX_CACHE_DIR: this.path };

  constructor() {
    const { cacheDir } = readEnvironment();
    // Unfinished pieces are renamed into the cache, so they lie on its file system.
    for (const name of readdirSync(cacheDir))
      if (name !== 'snapshots' && name !== 'tmp') symlinkSync(join(cacheDir, name), join(this.path, name));
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
