/** The events of an event stream (`text/event-stream`), which may be hostile. */
import { ForeignAnswerError } from './errors.ts';

export interface StreamedEvent {
  /** `message` if the stream does not name the event. */
  readonly event: string;
  /** The last `id` of the stream; empty: it has sent none. */
  readonly id: string;
  readonly data: string;
}

/**
 * Yields each line without its end. A last line without an end is left out: the connection broke within it.
 * @throws ForeignAnswerError for a line of more than `mostCharacters`
 */
export async function* readLines(bytes: AsyncIterable<Uint8Array>, mostCharacters: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of bytes) {
    // Only the new part is searched: many small chunks of a long line cost no more than a large one.
    const lines = decoder.decode(chunk, { stream: true }).split('\n');
    const last = lines.pop()!;
    for (const line of lines) {
      refuseAbove(rest.length + line.length, mostCharacters);
      yield (rest + line).replace(/\r$/, '');
      rest = '';
    }
    rest += last;
    refuseAbove(rest.length, mostCharacters);
  }
}

/**
 * Yields events; comments are left out.
 * @throws ForeignAnswerError for an event or a line of more than `mostCharacters`
 */
export async function* readStreamedEvents(
  bytes: AsyncIterable<Uint8Array>,
  mostCharacters: number,
): AsyncGenerator<StreamedEvent> {
  let event = 'message';
  let id = '';
  let data: string[] = [];
  let characters = 0;
  for await (const line of readLines(bytes, mostCharacters)) {
    if (line === '') {
      if (data.length > 0) yield { event, id, data: data.join('\n') };
      event = 'message';
      data = [];
      characters = 0;
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'event') event = value;
    if (field === 'id') id = value;
    if (field !== 'data') continue;
    // An empty line takes room too.
    characters += value.length + 1;
    refuseAbove(characters, mostCharacters);
    data.push(value);
  }
}

function refuseAbove(characters: number, mostCharacters: number): void {
  if (characters > mostCharacters)
    throw new ForeignAnswerError(`an event of the service has more than ${mostCharacters} characters`, 200);
}
