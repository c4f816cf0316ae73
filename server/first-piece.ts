/** Reads the first piece of a source before the status of an answer is sent. */

/**
 * Returns the whole source, whose first piece has been read then. Its `return` ends the source also if no piece was
 * taken: a generator that has not begun would keep the file of its source open.
 * @throws the error of the first piece
 */
export async function readFirstPiece<T>(source: AsyncIterator<T>): Promise<AsyncIterator<T>> {
  let first: IteratorResult<T> | null = await source.next();
  const readNext = async (): Promise<IteratorResult<T>> => {
    const piece = first ?? (await source.next());
    first = null;
    return piece;
  };
  const endSource = async (): Promise<IteratorResult<T>> => {
    await source.return?.();
    return { done: true, value: undefined };
  };
  return { next: readNext, return: endSource };
}
