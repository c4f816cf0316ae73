/**
 * From nothing to what a real agent changed in a repository: the unmodified command line of Codex in a VM, asked by a run of the
 * command line, against a model server that plays a script; then brought into the repository.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type FakeModel, type ModelScript, startFakeModel } from './fake-model/fake-model.ts';

const run = promisify(execFile);

const WRONG = 'echo $(($1 - $2))\n';
const RIGHT = 'echo $(($1 + $2))\n';

const FIXES: ModelScript = ({ turn }) =>
  turn === 0 ? { run: "sed -i 's/ - / + /' add.sh && git commit -qam 'add.sh: it adds'" } : { say: 'It subtracted.' };

export interface PatchOptions {
  readonly bin: string;
  /** Empty; the repository and the spec are made in it. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Patches extends AsyncDisposable {
  /** Runs the agent on the repository as it was at first, and applies what it did. @returns milliseconds @throws Error when it did something else */
  patch(): Promise<number>;
}

export async function preparePatches({ bin, folder, env }: PatchOptions): Promise<Patches> {
  const model = await startFakeModel(FIXES);
  const repository = join(folder, 'my-app');
  makeRepository(repository);
  const spec = join(folder, 'fix.yaml');
  writeFileSync(spec, specOf(model));
  const cli = (...args: string[]): Promise<unknown> => run(process.execPath, [bin, ...args], { env: { ...env } });
  let patches = 0;
  return {
    async patch() {
      execFileSync('git', ['reset', '-q', '--hard'], { cwd: repository });
      patches += 1;
      const runId = `patch-${patches}`;
      const began = performance.now();
      await cli('run', spec, '--run-id', runId);
      await cli('apply', runId);
      const tookMs = performance.now() - began;
      const left = readFileSync(join(repository, 'add.sh'), 'utf8');
      if (left !== RIGHT) throw new Error(`the agent left ${JSON.stringify(left)}`);
      return tookMs;
    },
    async [Symbol.asyncDispose]() {
      await cli('down');
      await model[Symbol.asyncDispose]();
    },
  };
}

function makeRepository(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const git = (...args: string[]): void => {
    execFileSync('git', ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', ...args], { cwd: folder });
  };
  git('init', '-q', '-b', 'main');
  writeFileSync(join(folder, 'add.sh'), WRONG);
  git('add', '.');
  git('commit', '-qm', 'first');
}

function specOf({ port }: FakeModel): string {
  return `api_version: v1
kind: pipeline
name: fix
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }
pipeline:
  boxes:
    - name: fix
      prompt: "\`sh add.sh 2 3\` prints -1. Fix add.sh and commit."
      workspace: { git: ./my-app }
`;
}
