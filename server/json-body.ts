/** Reads the body of a request within its limits. */
import type { HonoRequest, MiddlewareHandler } from 'hono';
import { findLostNumber } from '../domain/units/lost-number.ts';
import type { ApiLimits } from './limits.ts';
import { isUpload } from './upload-body.ts';
import { createRequestError } from './problems.ts';
import { isVoidBoxPath } from './void-box/errors.ts';

/** With or without parameters. */
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/** Checks each body before a route reads it. The route then gets the checked value. */
export function checkBody(limits: ApiLimits): MiddlewareHandler {
  return async ({ req }, next) => {
    // These routes read their bytes themselves, after they have checked the proof.
    if (isHookPath(req.path) || isApprovalPath(req.path)) return await next();
    if (req.header('content-encoding') !== undefined)
      throw createRequestError('api/unsupported-body', 'a request has no `Content-Encoding`');
    if (isUpload(req.method, req.path)) return await next();
    const { body } = req.raw;
    if (body !== null) keepBody(req, await readJson(body, req, limits));
    await next();
  };
}

interface JsonBody {
  readonly text: string;
  /** Null for an empty text. */
  readonly value: unknown;
}

export function isHookPath(path: string): boolean {
  return path.startsWith('/hooks/');
}

/** The page of a link to a question. */
export function isApprovalPath(path: string): boolean {
  return path.startsWith('/approvals/');
}

/** Hono reads a body once and keeps its text. Validators ask for the value, which they would parse again. */
function keepBody(req: HonoRequest, { text, value }: JsonBody): void {
  req.bodyCache.text = Promise.resolve(text) as unknown as string;
  if (text !== '') req.json = <T>() => Promise.resolve(value as T);
}

async function readJson(body: ReadableStream<Uint8Array>, req: HonoRequest, limits: ApiLimits): Promise<JsonBody> {
  const bytes = await readBytes(body, Number(req.header('content-length') ?? 0), limits.bodyBytes);
  if (bytes.byteLength === 0) return { text: '', value: null };
  // Void-Box reads each body as JSON, and some of its clients send no type.
  if (!isVoidBoxPath(req.path) && !JSON_TYPE.test(req.header('content-type') ?? ''))
    throw createRequestError('api/unsupported-body', 'the `Content-Type` of a body is `application/json`');
  const text = decode(bytes);
  if (isDeeperThan(text, limits.bodyDepth))
    throw createRequestError('api/too-large', `the JSON of the body has more than ${limits.bodyDepth} levels`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw createRequestError('api/invalid-request', `the body is not JSON: ${hideExcerpt((error as Error).message)}`);
  }
  const place = ESCAPED_SURROGATE.test(text) ? findLoneSurrogate(value) : null;
  if (place !== null) throw createRequestError('api/invalid-request', `${place}: it is not Unicode text`);
  refuseLostNumber(text);
  return { text, value };
}

/** Refuses numbers that the parser changes. */
function refuseLostNumber(text: string): void {
  const number = findLostNumber(text);
  if (number === null) return;
  throw createRequestError(
    'api/invalid-request',
    `the body has the number ${number.slice(0, 80)}, which has no exact value: use numbers within ±9007199254740991, or a text`,
  );
}

/** The error of a parser quotes the text around the mistake, which may be a part of a secret. */
function hideExcerpt(message: string): string {
  return message.replace(/, (?:\.{3})?".*is not valid JSON$/su, '');
}

/** A body is UTF-8, so only an escape can make half of a character. */
const ESCAPED_SURROGATE = /\\u[dD][89a-fA-F]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Finds a text with half of a character, which stores and Temporal would not return as it was sent.
 * @returns the place of the text or of its key, as a problem names it; null: there is no such text
 */
export function findLoneSurrogate(value: unknown, path: readonly string[] = []): string | null {
  const place = path.length === 0 ? 'the body' : `\`${path.join('.')}\``;
  if (typeof value === 'string') return LONE_SURROGATE.test(value) ? place : null;
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, inner] of Object.entries(value)) {
    if (LONE_SURROGATE.test(key)) return `a key of ${place}`;
    const found = findLoneSurrogate(inner, [...path, key]);
    if (found !== null) return found;
  }
  return null;
}

async function readBytes(
  body: ReadableStream<Uint8Array>,
  announcedBytes: number,
  mostBytes: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const createSizeError = () => createRequestError('api/too-large', `the body has more than ${mostBytes} bytes`);
  if (announcedBytes > mostBytes) throw createSizeError();
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > mostBytes) throw createSizeError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw createRequestError('api/invalid-request', 'the body is not UTF-8 text');
  }
}

/** Counts brackets outside of texts, before a parser holds the values. */
export function isDeeperThan(json: string, most: number): boolean {
  let depth = 0;
  let isInText = false;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at];
    if (isInText) {
      if (character === '\\') at += 1;
      else if (character === '"') isInText = false;
    } else if (character === '"') isInText = true;
    else if (character === '{' || character === '[') {
      depth += 1;
      if (depth > most) return true;
    } else if (character === '}' || character === ']') depth -= 1;
  }
  return false;
}
