/** A git repository with a mistake: `add.sh` subtracts, and `test.sh` fails because of it. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class Calculator {
  readonly folder: string;

  /** Makes `my-app` in the folder, and replaces an earlier one. */
  constructor(parent: string) {
    this.folder = join(parent, 'my-app');
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder);
    this.git('init', '-q');
    writeFileSync(join(this.folder, 'add.sh'), 'echo $(($1 - $2))\n');
    this.commit('test.sh', 'test "$(sh ./add.sh 2 3)" = 5 && echo "2 + 3 is 5"\n', 'a calculator');
  }

  git(...args: readonly string[]): string {
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b'];
    return execFileSync('git', [...identity, ...args], { cwd: this.folder, encoding: 'utf8' });
  }

  commit(file: string, text: string, subject: string): void {
    writeFileSync(join(this.folder, file), text);
    this.git('add', '.');
    this.git('commit', '-qm', subject);
  }

  /** Returns the output of its test. @throws Error if the test fails */
  test(): string {
    return execFileSync('sh', ['./test.sh'], { cwd: this.folder, encoding: 'utf8' });
  }
}
