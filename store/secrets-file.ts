/**
 * The file from which a worker lends variables: lines `NAME=value`, as `node --env-file` reads them. The worker opens
 * it each time, so that values can be replaced, and reads it only if no other user can have written or read it.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { CodedError } from '../domain/errors/coded-error.ts';
import { isVariable } from '../domain/language/grammar/values.ts';

const MOST_BYTES = 256 * 1024;

/** @throws CodedError `host/secrets-file` */
export function readSecretsFile(path: string): Readonly<Record<string, string>> {
  const values = parse(path, readText(path));
  // The message names no variable, because the text may be part of a value whose quotes are missing.
  if (!Object.keys(values).every(isVariable))
    throw createRefusal(
      path,
      'a name in it is not one of a variable',
      'use letters, digits and `_`, not a digit first',
    );
  return values;
}

function readText(path: string): string {
  let file: number;
  try {
    // Without waiting: a pipe without a writer would hold the worker.
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ELOOP') throw createRefusal(path, 'it is a symbolic link', 'name the file itself');
    throw createRefusal(path, message, 'make it, or name another file');
  }
  try {
    const { mode, uid, size } = assertRegular(path, fstatSync(file));
    const user = process.getuid?.();
    if (uid !== user)
      throw createRefusal(path, `it belongs to the user ${uid}, the worker is ${user}`, `chown ${user} FILE`);
    if ((mode & 0o077) !== 0)
      throw createRefusal(
        path,
        `others may use it (mode ${(mode & 0o777).toString(8).padStart(4, '0')})`,
        'chmod 600 FILE',
      );
    if (size > MOST_BYTES)
      throw createRefusal(path, `it has ${size} bytes, at most ${MOST_BYTES} are read`, 'keep only credentials in it');
    // One byte more shows that the file has grown since.
    const buffer = Buffer.alloc(MOST_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null);
    if (length > MOST_BYTES)
      throw createRefusal(path, `it has more than ${MOST_BYTES} bytes`, 'keep only credentials in it');
    const bytes = buffer.subarray(0, length);
    if (!isUtf8(bytes)) throw createRefusal(path, 'it is not UTF-8', 'write values that are not text in base64');
    return bytes.toString('utf8');
  } finally {
    closeSync(file);
  }
}

function assertRegular<T extends { isFile(): boolean }>(path: string, facts: T): T {
  if (!facts.isFile()) throw createRefusal(path, 'it is not a regular file', 'name a file');
  return facts;
}

function parse(path: string, text: string): Readonly<Record<string, string>> {
  const remedy = 'write lines NAME=value, with quotes around values of several lines';
  if (text.includes('\0')) throw createRefusal(path, 'it has a zero byte', remedy);
  const values = parseEnv(text) as Record<string, string>;
  const says = text.split('\n').some((line) => line.trim() !== '' && !line.trim().startsWith('#'));
  if (says && Object.keys(values).length === 0) throw createRefusal(path, 'it has no line NAME=value', remedy);
  return values;
}

function createRefusal(path: string, why: string, remedy: string): CodedError {
  return new CodedError(
    'host/secrets-file',
    `the secrets file ${path} is not read: ${why}; ${remedy.replace('FILE', path)}`,
  );
}
