import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DurableFolders } from './file/layout.ts';
import { openStores } from './open-stores.ts';
import {
  keepStateFormat,
  keepStateFormatWithAdvice,
  requireStateFormat,
  findStateFormatProblem,
} from './state-format.ts';

let stateDir: string;
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-format-'));
  stateDir = join(dir, 'state');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const file = (): string => join(stateDir, 'state-format');
const put = (bytes: string | Uint8Array): void => {
  mkdirSync(stateDir);
  writeFileSync(file(), bytes);
};

describe('a folder without contents of Voidbox', () => {
  test('stays as it is if a process only reads, and gets the number 1 from the first that writes', () => {
    requireStateFormat(stateDir);
    expect(existsSync(stateDir)).toBe(false);
    keepStateFormat(stateDir);
    keepStateFormat(stateDir);
    expect(readdirSync(stateDir)).toEqual(['state-format']);
    expect(readFileSync(file(), 'utf8')).toBe('1\n');
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    requireStateFormat(stateDir);
  });

  test('gets its number beside files of others, and beside a lock, logs and a stop mark', () => {
    mkdirSync(join(stateDir, 'logs'), { recursive: true });
    for (const name of ['notes.txt', 'stack.lock', 'stack.stopped']) writeFileSync(join(stateDir, name), '');
    expect(findStateFormatProblem(stateDir)).toBeNull();
    keepStateFormat(stateDir);
    expect(readFileSync(file(), 'utf8')).toBe('1\n');
    expect(existsSync(join(stateDir, 'notes.txt'))).toBe(true);
  });

  test('gets its number after a process was killed while it wrote one, and what that left is removed', () => {
    mkdirSync(stateDir);
    writeFileSync(join(stateDir, 'state-format.0123456789ab.partial'), '');
    writeFileSync(join(stateDir, 'state-format.mine'), '');
    keepStateFormat(stateDir);
    expect(readdirSync(stateDir).sort()).toEqual(['state-format', 'state-format.mine']);
    expect(readFileSync(file(), 'utf8')).toBe('1\n');
  });

  test('gets its number before a store puts anything into it, also if the folder was deleted since', async () => {
    const folders = new DurableFolders(stateDir);
    await folders.make(join(stateDir, 'runs', 'a'));
    expect(readdirSync(stateDir).sort()).toEqual(['runs', 'state-format']);
    rmSync(stateDir, { recursive: true });
    await folders.make(join(stateDir, 'runs', 'a'));
    expect(readdirSync(stateDir).sort()).toEqual(['runs', 'state-format']);
  });
});

test('a number may lack its line break, as an editor leaves it', () => {
  put('1');
  expect(findStateFormatProblem(stateDir)).toBeNull();
});

const HOSTILE: readonly (readonly [string, () => void, string])[] = [
  [
    'a link to a number',
    () => (writeFileSync(join(dir, 'one'), '1\n'), mkdirSync(stateDir), symlinkSync(join(dir, 'one'), file())),
    'it is a link and no file',
  ],
  [
    'a link to a number in the folder',
    () => (mkdirSync(stateDir), writeFileSync(join(stateDir, 'one'), '1\n'), symlinkSync('one', file())),
    'it is a link and no file',
  ],
  ['a link that leads nowhere', () => (mkdirSync(stateDir), symlinkSync('none', file())), 'it is a link and no file'],
  ['a folder', () => mkdirSync(file(), { recursive: true }), 'it is a folder and no file'],
  [
    'a pipe without a writer',
    () => (mkdirSync(stateDir), execFileSync('mkfifo', [file()])),
    'it is a pipe and no file',
  ],
  ['a file of 1 MiB', () => put('1'.repeat(1 << 20)), 'it has 1048576 bytes, at most 32 are read'],
  ['an empty file', () => put(''), 'its 0 bytes are not a number'],
  ['bytes that are not UTF-8', () => put(Uint8Array.of(0xff, 0xfe, 0x31)), 'its 3 bytes are not a number'],
  ['digits of another script', () => put('١\n'), 'its 3 bytes are not a number'],
  ['a number with a zero in front', () => put('01\n'), 'its 3 bytes are not a number'],
  ['a number with a space', () => put(' 1\n'), 'its 3 bytes are not a number'],
  ['two lines', () => put('1\n1\n'), 'its 4 bytes are not a number'],
];

describe('a number that cannot be read', () => {
  test.each(HOSTILE)('because it is %s refuses the folder, and stays as it is', (_what, make, why) => {
    make();
    const before = readdirSync(stateDir);
    const message = `the format number of the state folder ${stateDir} cannot be read from state-format: ${why}; this build of Voidbox reads format 1`;
    expect(findStateFormatProblem(stateDir)).toBe(message);
    for (const use of [requireStateFormat, keepStateFormat])
      expect(() => use(stateDir)).toThrow(expect.objectContaining({ code: 'host/state-format', message }));
    expect(readdirSync(stateDir)).toEqual(before);
  });
});

describe('a folder of another format', () => {
  test.each(['0', '2', '999999999'])('with the number %s is refused by readers, writers and stores', async (number) => {
    put(`${number}\n`);
    const refusal = {
      code: 'host/state-format',
      message: `the state folder ${stateDir} has format ${number}; this build of Voidbox reads format 1`,
    };
    for (const use of [requireStateFormat, keepStateFormat])
      expect(() => use(stateDir)).toThrow(expect.objectContaining(refusal));
    await expect(openStores({ stateDir })).rejects.toMatchObject(refusal);
    await expect(new DurableFolders(stateDir).make(join(stateDir, 'runs'))).rejects.toMatchObject(refusal);
    expect(readdirSync(stateDir)).toEqual(['state-format']);
  });

  test.each(['runs', 'temporal.db', 'vms', 'mounts.json', 'host-id'])(
    'with %s and without a number is refused, and nothing is put into it',
    (name) => {
      mkdirSync(join(stateDir, name), { recursive: true });
      const message = `the state folder ${stateDir} has contents of Voidbox but no format number (state-format); this build of Voidbox reads format 1`;
      for (const use of [requireStateFormat, keepStateFormat])
        expect(() => use(stateDir)).toThrow(expect.objectContaining({ code: 'host/state-format', message }));
      expect(readdirSync(stateDir)).toEqual([name]);
    },
  );

  test('is refused with the remedy in the message, for programs that print only the message', () => {
    put('2\n');
    expect(() => keepStateFormatWithAdvice(stateDir)).toThrow(
      /has format 2; this build of Voidbox reads format 1\. Stop its stack: `voidbox down`\. Then move the folder away/,
    );
  });
});

test('a folder that the system cannot look into is refused', () => {
  symlinkSync('state', stateDir);
  expect(findStateFormatProblem(stateDir)).toMatch(/cannot be read from state-format: ELOOP/);
});
