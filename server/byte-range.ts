/** A part of bytes, as the header `Range` of a request names it (RFC 9110, 14). */
export interface ByteRange {
  readonly from: number;
  /** After the last byte. */
  readonly to: number;
}

/**
 * @param header  null: it is absent
 * @returns null: all bytes, also for a header with several ranges or of another form; `outside`: it names no byte
 */
export function readByteRange(header: string | null, sizeBytes: number): ByteRange | 'outside' | null {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.trim() ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return null;
  if (first === '') {
    const count = Math.min(Number(last), sizeBytes);
    return count === 0 ? 'outside' : { from: sizeBytes - count, to: sizeBytes };
  }
  const from = Number(first);
  if (last !== '' && Number(last) < from) return null;
  if (from >= sizeBytes) return 'outside';
  return { from, to: last === '' ? sizeBytes : Math.min(Number(last) + 1, sizeBytes) };
}
