import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readSecretsFile } from './secrets-file.ts';

let dir: string;
let file: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-secrets-'));
  file = join(dir, 'secrets.env');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function write(text: string, mode = 0o600): void {
  writeFileSync(file, text);
  chmodSync(file, mode);
}

test('has a variable in each line, and values of several lines in quotes', () => {
  write('# tokens\nexport TOKEN=a=b\n\nKEY="one\ntwo"\nEMPTY=\n', 0o400);
  expect({ ...readSecretsFile(file) }).toEqual({ TOKEN: 'a=b', KEY: 'one\ntwo', EMPTY: '' });
});

test('is read again each time', () => {
  write('TOKEN=old');
  expect(readSecretsFile(file)['TOKEN']).toBe('old');
  writeFileSync(join(dir, 'next'), 'TOKEN=new', { mode: 0o600 });
  renameSync(join(dir, 'next'), file);
  expect(readSecretsFile(file)['TOKEN']).toBe('new');
});

describe('is refused', () => {
  const refusal = (): unknown => {
    try {
      return readSecretsFile(file);
    } catch (error) {
      return error;
    }
  };

  test.each<[string, () => void, string]>([
    ['when it is not there', () => undefined, 'ENOENT'],
    ['when its group may read it', () => write('A=b', 0o640), 'others may use it (mode 0640); chmod 600 '],
    ['when others may write it', () => write('A=b', 0o602), 'others may use it (mode 0602)'],
    ['when it is a folder', () => (file = dir), 'it is not a regular file'],
    ['when it is a pipe', () => void execFileSync('mkfifo', ['-m', '600', file]), 'it is not a regular file'],
    [
      'when it is a link',
      () => {
        writeFileSync(join(dir, 'real'), 'A=b', { mode: 0o600 });
        symlinkSync(join(dir, 'real'), file);
      },
      'it is a symbolic link',
    ],
    [
      'when it is too large',
      () => write(`A=${'x'.repeat(256 * 1024)}`),
      'it has 262146 bytes, at most 262144 are read',
    ],
    ['when it has no variable', () => write('{ not an env file }'), 'it has no line NAME=value'],
    ['when it has a zero byte', () => write('A=b\0c'), 'it has a zero byte'],
    ['when a name is invalid', () => write('A=b\n1two=c'), 'a name in it is not one of a variable'],
    [
      'when it belongs to another user',
      () => {
        if (process.getuid?.() !== 0) return void (file = '/etc/passwd');
        write('A=b');
        chownSync(file, 1, 1);
      },
      'it belongs to the user ',
    ],
  ])('%s', (_name, arrange, why) => {
    arrange();
    expect(refusal()).toMatchObject({ code: 'host/secrets-file', message: expect.stringContaining(why) });
  });
});
