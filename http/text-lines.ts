/** The lines of a stream of UTF-8 text. */

/** An event with a piece of output may have more than 1 MiB; no line of a service is as long as this. */
const MOST_LINE_CHARACTERS = 64 * 1024 * 1024;

/** Yields each line without its end. The last line needs no end. */
export async function* readLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of bytes) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > MOST_LINE_CHARACTERS) throw new Error('a line of the service is too long');
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  rest += decoder.decode();
  if (rest !== '') yield rest;
}

export interface StreamedEvent {
  /** `message` if the stream does not name the event. */
  readonly event: string;
  readonly data: string;
}

/**
 * Yields the events of an event stream (`text/event-stream`); comments are left out.
 * @throws Error if an event or a line is too long
 */
export async function* readStreamedEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<StreamedEvent> {
  let event = 'message';
  let data: string[] = [];
  let characters = 0;
  for await (const line of readLines(bytes)) {
    const [, field, value] = /^([a-z]*):? ?(.*)$/s.exec(line) ?? [];
    if (line === '') {
      if (data.length > 0) yield { event, data: data.join('\n') };
      event = 'message';
      data = [];
      characters = 0;
    } else if (field === 'event') event = value!;
    else if (field === 'data') {
      // An empty line takes room too.
      characters += value!.length + 1;
      if (characters > MOST_LINE_CHARACTERS) throw new Error('an event of the service is too long');
      data.push(value!);
    }
  }
}
