/**
 * Returns a signal that aborts with `signal`, or after a time with a `TimeoutError`. Node 20 deletes an
 * `AbortSignal.timeout` that only an `AbortSignal.any` refers to: that limit never ends anything.
 */
export function limitSignal(signal: AbortSignal, limitMs: number): AbortSignal {
  const limit = new AbortController();
  const expired = new DOMException(`nothing ended it within ${limitMs} ms`, 'TimeoutError');
  setTimeout(() => limit.abort(expired), limitMs).unref();
  return AbortSignal.any([signal, limit.signal]);
}
