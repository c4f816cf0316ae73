/**
 * The rule of Void-Box's API for results: a stage that must leave a result leaves a JSON object with the key `status`.
 * Runs that other clients start have no such rule.
 */
import { readJsonObject } from './json-object.ts';

export const RESULT_NAME = 'result.json';

/** A larger result is not read, and counts as no JSON. */
export const RESULT_BYTES = 1024 * 1024;

export interface ResultProblem {
  readonly kind: 'missing' | 'malformed';
  readonly message: string;
}

/** @param stages  the number of stages of the run */
export function mustLeaveResult(kind: string, stages: number): boolean {
  return kind === 'agent' || kind === 'pipeline' || (kind === 'workflow' && stages <= 1);
}

/** @param text  the bytes as text; null: no result; undefined: they are too many, or not UTF-8 */
export function findResultProblem(stage: string, text: string | null | undefined): ResultProblem | null {
  if (text === null) return { kind: 'missing', message: `stage '${stage}' completed without ${RESULT_NAME}` };
  const value = text === undefined ? undefined : readJson(text);
  const createMalformed = (problem: string): ResultProblem => ({
    kind: 'malformed',
    message: `${RESULT_NAME} for stage '${stage}' ${problem}`,
  });
  if (value === undefined) return createMalformed('is not valid JSON');
  return readJsonObject(value) !== null && Object.hasOwn(value as object, 'status')
    ? null
    : createMalformed(`is missing required 'status' field`);
}

/** An artifact that a result names. */
export interface NamedFile {
  readonly name: string;
  /** The path in the guest, absolute. */
  readonly guestPath: string;
  readonly mediaType: string;
}

/** The artifacts of a result; more are ignored. */
const MOST_FILES = 1_000;
const FOLDER = '/workspace';

/** Reads `artifacts` of a result. Entries without a name, and names that are a path, are left out. */
export function listNamedFiles(text: string): readonly NamedFile[] {
  const list = readJsonObject(readJson(text))?.['artifacts'];
  if (!Array.isArray(list)) return [];
  return list.slice(0, MOST_FILES).flatMap((entry): readonly NamedFile[] => {
    const { name, path, media_type: type } = readJsonObject(entry) ?? {};
    if (typeof name !== 'string' || !isFileName(name)) return [];
    const place = typeof path === 'string' ? path : name;
    const guestPath = place.startsWith('/') ? place : `${FOLDER}/${place}`;
    return [{ name, guestPath, mediaType: typeof type === 'string' ? type : 'application/octet-stream' }];
  });
}

function isFileName(name: string): boolean {
  return name !== '' && name !== '.' && !name.includes('..') && !/[/\\\0]/.test(name);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
