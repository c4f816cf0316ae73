/** Types at the real command line: with a folder of its own, without a server; returns the output of each stream. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

export interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class Terminal {
  readonly dir: string;
  readonly stateDir: string;

  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'voidbox-cli-'));
    this.stateDir = join(this.dir, 'state');
  }

  /** Variables that differ from this process's. */
  variables: Readonly<Record<string, string>> = {};

  file(name: string, text: string | Uint8Array): void {
    writeFileSync(join(this.dir, name), text);
  }

  /** Standard output and error are pipes, so text is plain and carries no colour. */
  type(...args: readonly string[]): Promise<Typed> {
    const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: this.stateDir, TZ: 'UTC' };
    for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command'])
      delete env[name];
    Object.assign(env, this.variables);
    return new Promise((resolve) => {
      execFile(process.execPath, [BIN, ...args], { cwd: this.dir, env, timeout: 30_000 }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
        resolve({ code, stdout: this.#withoutPlace(stdout), stderr: this.#withoutPlace(stderr) });
      });
    });
  }

  dispose(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  #withoutPlace(text: string): string {
    return text.replaceAll(this.dir, '/DIR');
  }
}
