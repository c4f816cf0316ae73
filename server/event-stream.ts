/** Texts of a stream, as fast as its reader reads them. */
export interface StreamOptions {
  /** A reader that accepts no byte for this long is disconnected. */
  readonly stalledMs: number;
  readonly pieceBytes: number;
  /** The text that a silent stream sends, and after which pause; null: none. */
  readonly heartbeat: { readonly text: string; readonly everyMs: number } | null;
  /** Called once, when the reader has gone or does not read. */
  readonly onGone: () => void;
}

/**
 * Reads the source only when the reader wants more. So a reader that does not read keeps one text here, of which one
 * piece waits in its connection.
 */
export function streamTexts(
  source: AsyncIterator<string>,
  { stalledMs, pieceBytes, heartbeat, onGone }: StreamOptions,
): ReadableStream<Uint8Array> {
  let reading: Promise<IteratorResult<string>> | null = null;
  let rest = new Uint8Array(0);
  let stalled: NodeJS.Timeout | undefined;
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(stalled);
    onGone();
    // A read that waits for the next text settles by the signal of its caller.
    void reading?.catch(() => undefined);
    source.return?.().catch(() => undefined);
  };
  const giveNext = async (): Promise<Uint8Array | null> => {
    if (rest.byteLength === 0) {
      reading ??= source.next();
      const next = heartbeat === null ? await reading : await raceWithPause(reading, heartbeat.everyMs);
      if (next === null) return Buffer.from(heartbeat!.text);
      reading = null;
      if (next.done === true) return null;
      rest = Buffer.from(next.value);
    }
    const piece = rest.subarray(0, pieceBytes);
    rest = rest.subarray(piece.byteLength);
    return piece;
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(stalled);
        try {
          const piece = await giveNext();
          if (isOver) return;
          if (piece === null) {
            end();
            return controller.close();
          }
          controller.enqueue(piece);
        } catch (error) {
          end();
          throw error;
        }
        stalled = setTimeout(() => {
          end();
          controller.error(new Error(`the reader accepted no byte for ${stalledMs} ms`));
        }, stalledMs);
      },
      cancel: end,
    },
    // Without this, a stream reads one text ahead.
    { highWaterMark: 0 },
  );
}

/** @returns null if the pause is over first */
async function raceWithPause<T>(value: Promise<T>, pauseMs: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<null>((resolve) => (timer = setTimeout(() => resolve(null), pauseMs)));
  try {
    return await Promise.race([value, pause]);
  } finally {
    clearTimeout(timer);
  }
}
