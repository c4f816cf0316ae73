/** Reads the body of a request within its limits. */
import type { HonoRequest, MiddlewareHandler } from 'hono';
import type { ApiLimits } from './limits.ts';
import { isUpload } from './upload-body.ts';
import { createRequestError } from './problems.ts';
import { isVoidBoxPath } from './void-box/errors.ts';

/** With or without parameters. */
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/** Checks each body before a route reads it. The route then gets the checked value. */
export function checkBody(limits: ApiLimits): MiddlewareHandler {
  return async ({ req }, next) => {
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
  try {
    return { text, value: JSON.parse(text) as unknown };
  } catch (error) {
    throw createRequestError('api/invalid-request', `the body is not JSON: ${(error as Error).message}`);
  }
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
