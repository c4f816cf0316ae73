/** The input of a batch: a JSON list of the payloads. */

export interface Payload {
  readonly bytes: Uint8Array;
  readonly contentType: string;
}

/**
 * JSON stays as it was received, so that its numbers keep their digits. Anything else becomes a text; bytes that are not
 * UTF-8 become U+FFFD in it.
 */
export function joinPayloads(payloads: readonly Payload[]): Uint8Array {
  const items = payloads.map(({ bytes, contentType }) => {
    const text = new TextDecoder('utf-8', { ignoreBOM: false }).decode(bytes);
    return isJson(contentType) && isValid(text) ? text.trim() : JSON.stringify(text);
  });
  return Buffer.from(`[${items.join(',\n')}]`);
}

function isJson(contentType: string): boolean {
  return contentType === 'application/json' || contentType.endsWith('+json');
}

function isValid(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
