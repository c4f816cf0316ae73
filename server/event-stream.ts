/** Texts or bytes of a stream, as fast as its reader reads them. */
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
  source: AsyncIterator<string | Uint8Array>,
  { stalledMs, pieceBytes, heartbeat, onGone }: StreamOptions,
): ReadableStream<Uint8Array> {
  let reading: PendingRead<IteratorResult<string | Uint8Array>> | null = null;
  let rest: Uint8Array = new Uint8Array(0);
  let stalled: NodeJS.Timeout | undefined;
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(stalled);
    onGone();
    source.return?.().catch(() => undefined);
  };
  const giveNext = async (): Promise<Uint8Array | null> => {
    if (rest.byteLength === 0) {
      reading ??= createPendingRead(source.next());
      const next = await reading.wait(heartbeat?.everyMs ?? null);
      if (next === null) return Buffer.from(heartbeat!.text);
      reading = null;
      if (next.done === true) return null;
      rest = typeof next.value === 'string' ? Buffer.from(next.value) : next.value;
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

interface PendingRead<T> {
  /**
   * @param pauseMs  null: as long as the read takes
   * @returns null if the pause is over first
   */
  wait(pauseMs: number | null): Promise<T | null>;
}

/** Each `Promise.race` would leave a reaction at the read, which an idle run keeps for hours. So the read has one. */
function createPendingRead<T>(read: Promise<T>): PendingRead<T> {
  let isSettled = false;
  let wake = (): void => undefined;
  const settle = (): void => {
    isSettled = true;
    wake();
  };
  read.then(settle, settle);
  return {
    async wait(pauseMs) {
      if (!isSettled) {
        await new Promise<void>((resolve) => {
          const timer = pauseMs === null ? undefined : setTimeout(resolve, pauseMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      return isSettled ? await read : null;
    },
  };
}
