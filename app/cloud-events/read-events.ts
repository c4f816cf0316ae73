/**
 * Reads events of CloudEvents 1.0 from a request: structured, batched or binary. A stranger wrote the request, so its
 * size, its depth and its attributes are bounded here, before the library of CloudEvents checks an attribute. The
 * library never gets the data of an event: it would parse the numbers of the data as doubles.
 */
import { type ExactJson, readExactJson, writeExactJson } from '../../domain/units/exact-json.ts';
import { quote } from '../../domain/units/quote.ts';
import { AppError } from '../app-error.ts';
import { readAttributes, type EventAttributes, readHeaderAttributes } from './attributes.ts';
import { BATCHED_TYPE, STRUCTURED_TYPE } from './media-types.ts';

/** The most events of one batch. */
export const MOST_BATCH_EVENTS = 100;

export interface ReadEvent {
  /** Texts by names. `id`, `source`, `type` and `specversion` are there. */
  readonly attributes: EventAttributes;
  /** The payload as its sender wrote it; empty: the event has no data. */
  readonly data: Uint8Array;
  /** The media type of the data, in lower case and without parameters. */
  readonly contentType: string;
}

export interface EventRequest {
  /** Each value of each header, by names in lower case. Characters are bytes. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: Uint8Array;
  /** In lower case and without parameters; null: the header is absent. */
  readonly contentType: string | null;
}

export interface ReadEvents {
  readonly isBatch: boolean;
  readonly events: readonly ReadEvent[];
}

/** @throws AppError `api/unsupported-body` for a request that is no event, `api/invalid-request` for a wrong event */
export async function readEvents({ headers, body, contentType }: EventRequest): Promise<ReadEvents> {
  if (contentType === STRUCTURED_TYPE)
    return { isBatch: false, events: [await readStructured(parse(body), 'the event')] };
  if (contentType === BATCHED_TYPE) return { isBatch: true, events: await readBatch(parse(body)) };
  return { isBatch: false, events: [await readBinary(headers, body, contentType)] };
}

function parse(body: Uint8Array): ExactJson {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw createInvalidError('the body is not UTF-8');
  }
  const read = readExactJson(text);
  if ('problem' in read) throw createInvalidError(`the body is not JSON: ${read.problem}`);
  return read.value;
}

async function readBatch(value: ExactJson): Promise<readonly ReadEvent[]> {
  if (!Array.isArray(value)) throw createInvalidError('the body of a batch is not a JSON list');
  if (value.length > MOST_BATCH_EVENTS)
    throw new AppError(
      'usage',
      'api/too-large',
      `the batch has ${value.length} events, and at most ${MOST_BATCH_EVENTS} are allowed`,
    );
  const events: ReadEvent[] = [];
  for (const [index, each] of value.entries())
    events.push(await readStructured(each, `event ${index + 1} of the batch`));
  return events;
}

async function readStructured(value: ExactJson, what: string): Promise<ReadEvent> {
  if (!(value instanceof Map)) throw createInvalidError(`${what} is not a JSON object`);
  const { data, data_base64: base64 } = { data: value.get('data'), data_base64: value.get('data_base64') };
  const others = new Map([...value].filter(([name]) => name !== 'data' && name !== 'data_base64'));
  const attributes = await readAttributes(others, what);
  const type = attributes['datacontenttype'] === undefined ? null : readMediaType(attributes['datacontenttype'], what);
  if (base64 !== undefined && base64 !== null) {
    if (data !== undefined) throw createInvalidError(`${what} has both \`data\` and \`data_base64\``);
    return { attributes, data: readBase64(base64, what), contentType: type ?? 'application/octet-stream' };
  }
  if (data === undefined) return { attributes, data: new Uint8Array(), contentType: 'text/plain' };
  // Data with another type is a text, or a value that has become JSON on its way.
  if (typeof data === 'string' && type !== null && !isJsonType(type))
    return { attributes, data: Buffer.from(data), contentType: type };
  const contentType = type !== null && isJsonType(type) ? type : 'application/json';
  return { attributes, data: Buffer.from(writeExactJson(data)), contentType };
}

function readBase64(value: ExactJson, what: string): Uint8Array {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'base64') : null;
  // `Buffer.from` skips characters that it cannot read.
  if (bytes === null || bytes.toString('base64') !== value)
    throw createInvalidError(`\`data_base64\` of ${what} is not base64`);
  return bytes;
}

async function readBinary(
  headers: EventRequest['headers'],
  body: Uint8Array,
  contentType: string | null,
): Promise<ReadEvent> {
  if (!headers.has('ce-specversion') && !headers.has('ce-id'))
    throw new AppError(
      'usage',
      'api/unsupported-body',
      `the request is not an event of CloudEvents: its \`Content-Type\` is neither \`${STRUCTURED_TYPE}\` nor \`${BATCHED_TYPE}\`, and it has no header \`ce-id\``,
    );
  const attributes = await readAttributes(readHeaderAttributes(headers), 'the event');
  if (contentType === null && body.byteLength > 0)
    throw new AppError('usage', 'api/unsupported-body', 'the event has data and no `Content-Type`');
  return { attributes, data: body, contentType: contentType ?? 'text/plain' };
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,64}\/[a-z0-9!#$&^_.+-]{1,64}$/;

/** Reads the media type of an event's data. @returns null for another text */
export function toMediaType(text: string): string | null {
  const [type = ''] = text.toLowerCase().split(';');
  const trimmed = type.trim();
  return MEDIA_TYPE.test(trimmed) ? trimmed : null;
}

function readMediaType(text: string, what: string): string {
  const type = toMediaType(text);
  if (type === null)
    throw createInvalidError(`\`datacontenttype\` of ${what} is ${quote(text)}, which is no media type`);
  return type;
}

function isJsonType(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json');
}

export function createInvalidError(message: string): AppError {
  return new AppError('usage', 'api/invalid-request', message);
}
