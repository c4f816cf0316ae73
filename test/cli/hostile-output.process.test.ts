/** Text of a guest, as the command line prints it. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStores } from '../../store/open-stores.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
/** Clears the screen, sets the clipboard, and is no UTF-8. */
const HOSTILE = Buffer.concat([
  Buffer.from('\u001b[2J\u001b]52;c;ZXZpbA==\u0007shown\n'),
  Buffer.from([0xff, 0x1b, 0x63, 0x0a]),
]);
const EXEC_KEY = 'bad/0/1';

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-hostile-'));
  const stateDir = join(dir, 'state');
  const { events, artifacts, close } = await openStores({ stateDir });
  const output = await artifacts.put(once(HOSTILE), 'application/octet-stream');
  const name = 'evil\u001b]0;title\u0007';
  await events.append('evil-1', [
    {
      id: 'run/admitted',
      atMs: 1,
      body: {
        type: 'run-admitted',
        name,
        kind: 'workflow',
        hostId: 'h',
        stages: [{ id: 'bad', dependsOn: [] }],
        outputStage: 'bad',
      },
    },
    {
      id: 'exec/bad/0/1/stdout/0',
      atMs: 2,
      body: {
        type: 'output',
        stage: 'bad',
        execKey: EXEC_KEY,
        stream: 'stdout',
        from: 0,
        to: HOSTILE.length,
        encoding: 'base64',
        data: HOSTILE.toString('base64'),
      },
    },
    {
      id: 'run/finished',
      atMs: 3,
      body: { type: 'run-finished', outcome: { state: 'succeeded', failedStage: null, failure: null, output } },
    },
  ]);
  await close();
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('guest output', () => {
  test('logs, status and runs carry no control character', async () => {
    for (const args of [['logs', 'evil-1'], ['logs', 'evil-1', '--stage', 'bad'], ['status', 'evil-1'], ['runs']]) {
      const { stdout, code } = await voidbox(args);
      expect(code).toBe(0);
      // eslint-disable-next-line no-control-regex -- control characters are the subject
      expect(stdout.toString('latin1')).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/);
    }
    expect((await voidbox(['logs', 'evil-1', '--stage', 'bad'])).stdout.toString()).toBe('shown\n�\n');
  });

  test('events in JSON are escaped by JSON', async () => {
    const { stdout } = await voidbox(['logs', 'evil-1', '--json']);
    // eslint-disable-next-line no-control-regex -- control characters are the subject
    expect(stdout.toString()).not.toMatch(/\u001b/);
  });

  test('logs --raw and result into a pipe are the bytes as they were', async () => {
    expect((await voidbox(['logs', 'evil-1', '--raw'])).stdout.equals(HOSTILE)).toBe(true);
    expect((await voidbox(['result', 'evil-1'])).stdout.equals(HOSTILE)).toBe(true);
  });

  test('result -o writes the bytes to a file', async () => {
    const file = join(dir, 'out.bin');
    writeFileSync(file, 'something longer that was there before, to be replaced as a whole');
    const { code, stdout } = await voidbox(['result', 'evil-1', '-o', file]);
    expect({ code, stdout: stdout.toString() }).toEqual({ code: 0, stdout: '' });
    expect(readFileSync(file).equals(HOSTILE)).toBe(true);
  });

  test('result --json has no text for what is not UTF-8', async () => {
    const json = JSON.parse((await voidbox(['result', 'evil-1', '--json'])).stdout.toString()) as {
      outputText: unknown;
      output: { sizeBytes: number };
    };
    expect(json).toMatchObject({ outputText: null, output: { sizeBytes: HOSTILE.length } });
  });

  test('a reader that goes away ends the command quietly', async () => {
    const child = spawn(process.execPath, [BIN, 'logs', 'evil-1'], {
      env: environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
}

async function voidbox(args: readonly string[]): Promise<{ readonly code: number | null; readonly stdout: Buffer }> {
  const child = spawn(process.execPath, [BIN, ...args], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 30_000,
  });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout: Buffer.concat(chunks) };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
