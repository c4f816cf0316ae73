import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test/rig/cpu-time.ts';
import { createRedactor, REDACTED, redactText, type RedactedPiece, type Secret } from './redactor.ts';
import { sanitize } from './sanitize.ts';

const secrets = (...values: string[]): Secret[] => values.map((value, index) => ({ name: `S${index}`, value }));

/** Pushes the text in pieces of one size and checks the offsets on the way. */
function through(text: string, known: Secret[], size: number, offset = 0): string {
  const stream = createRedactor(known).stream(offset);
  const input = Buffer.from(text);
  const pieces: RedactedPiece[] = [];
  for (let at = 0; at < input.length; at += size) {
    // The chunks share one buffer, like those of a reader: the redactor may keep no view of it.
    const chunk = Buffer.from(input.subarray(at, at + size));
    pieces.push(...stream.push(chunk).map((piece) => ({ ...piece, bytes: Buffer.from(piece.bytes) })));
    chunk.fill(0x21);
  }
  pieces.push(...stream.flush());
  let at = offset;
  for (const piece of pieces) {
    expect(piece.from).toBe(at);
    expect(piece.to).toBeGreaterThan(piece.from);
    at = piece.to;
  }
  expect(at).toBe(offset + input.length);
  return Buffer.concat(pieces.map(({ bytes }) => bytes)).toString();
}

/** The expected output of the stream, by the slow method: every byte of every occurrence is replaced. */
function expected(text: string, values: readonly string[]): string {
  const spans = values.flatMap((value) =>
    [...text]
      .map((_, from) => from)
      .filter((from) => text.startsWith(value, from))
      .map((from) => [from, from + value.length] as const),
  );
  spans.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of spans) {
    const last = merged.at(-1);
    if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  let result = '';
  let at = 0;
  for (const [from, to] of merged) {
    result += text.slice(at, from) + REDACTED;
    at = to;
  }
  return result + text.slice(at);
}

describe('a stream', () => {
  test.each([1, 2, 3, 5, 7, 100])('in chunks of %d gives no secret', (size) => {
    expect(through('a hunter2! b hunter2! c', secrets('hunter2!'), size)).toBe(`a ${REDACTED} b ${REDACTED} c`);
    expect(through('almost hunter2 and the end hunter', secrets('hunter2!'), size)).toBe(
      'almost hunter2 and the end hunter',
    );
  });

  test('with overlapping secrets loses all of them', () => {
    const values = ['abcdefgh', 'cdefghij', 'efghijklmn'];
    for (const size of [1, 3, 50]) expect(through('xabcdefghijklmnx', secrets(...values), size)).toBe(`x${REDACTED}x`);
  });

  test('continues from an offset', () => {
    expect(through('b hunter2!', secrets('hunter2!'), 4, 1_000)).toBe(`b ${REDACTED}`);
  });

  test('a stream of random text has the result of a slow redactor', () => {
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 300; round += 1) {
      const word = (length: number): string => Array.from({ length }, () => 'ab'[random(2)]).join('');
      const values = Array.from({ length: 1 + random(4) }, () => word(6 + random(3)));
      const text = word(random(120));
      expect(through(text, secrets(...values), 1 + random(9)), `${text} without ${values.join()}`).toBe(
        expected(text, values),
      );
    }
  });

  test('that is one long run of a secret is returned in parts', () => {
    const stream = createRedactor(secrets('aaaaaa')).stream();
    const chunk = Buffer.alloc(100_000, 'a');
    expect(stream.push(chunk)).toHaveLength(1);
    const rest = [...stream.push(chunk), ...stream.flush()];
    expect(rest.every(({ bytes }) => Buffer.from(bytes).toString() === REDACTED)).toBe(true);
    expect(rest.at(-1)?.to).toBe(200_000);
  });

  test('may be resumed at the end of any piece', () => {
    const text = 'one hunter2! two hunter2! three';
    const known = secrets('hunter2!');
    const stream = createRedactor(known).stream();
    const first = stream.push(Buffer.from(text).subarray(0, 20));
    const before = Buffer.concat(first.map(({ bytes }) => bytes)).toString();
    const cursor = first.at(-1)!.to;
    expect(before + through(text.slice(cursor), known, 3, cursor)).toBe(`one ${REDACTED} two ${REDACTED} three`);
  });
});

describe('a secret is known', () => {
  // Contains characters that JSON, HTML, URLs and base64 encode, and letters outside of ASCII.
  const SECRET = 'pa"ss/wörd+<&=\'> ÿ~?\u{1f511}\n(end)';
  const bytes = Buffer.from(SECRET);
  const json = JSON.stringify(SECRET).slice(1, -1);
  const uri = encodeURIComponent(SECRET);
  const hex = bytes.toString('hex');
  const python = json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const lower = (text: string): string => text.replaceAll(/%../g, (code) => code.toLowerCase());
  const unreserved = uri.replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);

  const FORMS: Readonly<Record<string, string>> = {
    'as it is': SECRET,
    'in JSON': json,
    'in JSON of PHP': python.replaceAll('/', '\\/'),
    'in JSON of Python': python,
    'in JSON with upper case digits': python.replaceAll(/\\u..../g, (unit) => `\\u${unit.slice(2).toUpperCase()}`),
    'in JSON of Go': json.replaceAll('<', '\\u003c').replaceAll('>', '\\u003e').replaceAll('&', '\\u0026'),
    'in JSON in JSON': JSON.stringify(json).slice(1, -1),
    'in a URL': uri,
    'in a URL with lower case digits': lower(uri),
    'in a URL with all that is reserved': unreserved,
    'in a path of a URL': unreserved.replaceAll('%2F', '/'),
    'in a whole URL': encodeURI(SECRET),
    'in a form': new URLSearchParams({ a: SECRET }).toString().slice(2),
    'in percent codes only': hex.replaceAll(/../g, '%$&'),
    'in hexadecimal digits': hex,
    'in upper case hexadecimal digits': hex.toUpperCase(),
  };

  test.each(Object.entries(FORMS))('%s', (_name, form) => {
    const known = secrets(SECRET);
    for (const size of [1, 7, 1_000]) expect(through(`<${form}>`, known, size)).toBe(`<${REDACTED}>`);
    expect(redactText(`<${form}>`, known)).toBe(`<${REDACTED}>`);
  });

  test.each(['base64', 'base64url'] as const)('in %s, also in the middle of a longer text', (alphabet) => {
    for (const value of [SECRET, 'hunter2-hunter2', 'abcdef', '>>>???>>>???'])
      for (const before of ['', 'u', 'us', 'user:'])
        for (const after of ['', '\n', ' and more', '!!']) {
          const whole = Buffer.from(`${before}${value}${after}`).toString(alphabet);
          const left = redactText(whole, secrets(value));
          expect(left, whole).toContain(REDACTED);
          // At most the bits of the value that share a character with its neighbours remain.
          const digits = left.replace(REDACTED, '').replaceAll('=', '');
          const own = Buffer.byteLength(before) * 8 + Buffer.byteLength(after) * 8;
          expect(digits.length, `${whole} became ${left}`).toBeLessThanOrEqual(Math.ceil(own / 6) + 2);
          for (const size of [1, 5]) expect(through(whole, secrets(value), size)).toBe(left);
        }
  });

  test.each([
    ['base64', 76, '\n'],
    ['base64', 64, '\r\n'],
    ['hex', 60, '\n'],
  ] as const)('in %s that is broken at %d columns', (alphabet, columns, end) => {
    const key = Array.from({ length: 40 }, (_, index) => `k${index * 7919}`).join('-');
    const text = Buffer.from(`config: ${key} and so on`)
      .toString(alphabet)
      .replaceAll(new RegExp(`.{${columns}}`, 'g'), `$&${end}`);
    const left = redactText(text, secrets(key));
    expect(left.length).toBeLessThan(50);
    expect(left).toContain(REDACTED);
    for (const size of [1, 10, 77, 5_000]) expect(through(text, secrets(key), size)).toBe(left);
  });

  test('by each of its lines, in each form', () => {
    const known = secrets('-----BEGIN-----\nc2VjcmV0IGtleQ==\n-----END-----\n');
    expect(redactText('key: c2VjcmV0IGtleQ==', known)).toBe(`key: ${REDACTED}`);
    expect(redactText(Buffer.from('c2VjcmV0IGtleQ==').toString('hex'), known)).toBe(REDACTED);
  });

  test('with short lines that a terminal ended', () => {
    const known = secrets('ab\ncd\nefg');
    for (const size of [1, 100]) expect(through('<ab\r\ncd\r\nefg>', known, size)).toBe(`<${REDACTED}>`);
    expect(redactText('<ab\r\ncd\r\nefg>', known)).toBe(`<${REDACTED}>`);
  });

  test('when it is long', () => {
    const key = Array.from({ length: 3_000 }, (_, index) => String.fromCharCode(97 + ((index * 7) % 26))).join('');
    for (const form of [key, Buffer.from(key).toString('base64'), encodeURIComponent(key)])
      expect(redactText(`<${form}>`, secrets(key)).length).toBeLessThan(20);
  });
});

describe('a secret with an escape sequence inside', () => {
  const SECRET = 'hunter2-hünter2';
  const SEQUENCES: Readonly<Record<string, string>> = {
    'the end of a color': '\u001b[0m',
    'a color': '\u001b[38;2;255;100;100m',
    'a C1 color': '\u009b1m',
    'a title': '\u001b]0;title\u0007',
    'a link': '\u001b]8;;https://example.com/ä\u001b\\',
    'a C1 string': '\u0090any\u009c',
    'a character set': '\u001b(B',
    'a device string': '\u001bPq#0\u001b\\',
    'a saved cursor': '\u001b7',
    'two colors': '\u001b[1m\u001b[31m',
    'a broken sequence and a color': '\u001b[0m\u001b[1m',
    'a long link': `\u001b]8;;https://example.com/${'x'.repeat(3_000)}\u0007`,
  };

  test.each(Object.entries(SEQUENCES))('is found with %s at any place', (_name, sequence) => {
    for (let at = 1; at < SECRET.length; at += 1) {
      const text = `<${SECRET.slice(0, at)}${sequence}${SECRET.slice(at)}>`;
      for (const size of [1, 2, 7, 10_000])
        expect(sanitize(through(text, secrets(SECRET), size))).toBe(`<${REDACTED}>`);
      expect(sanitize(redactText(text, secrets(SECRET)))).toBe(`<${REDACTED}>`);
    }
  });

  test('is found with a color before each character', () => {
    const text = [...SECRET].map((character, index) => `\u001b[38;5;${index}m${character}`).join('');
    for (const size of [1, 7, 10_000])
      expect(sanitize(through(`${text}!`, secrets(SECRET), size))).toBe(`${REDACTED}!`);
    expect(sanitize(redactText(`${text}!`, secrets(SECRET)))).toBe(`${REDACTED}!`);
  });

  test('is found in base64 with a color in a broken line', () => {
    const key = Array.from({ length: 40 }, (_, index) => `k${index * 7919}`).join('-');
    const lines = Buffer.from(key).toString('base64').replaceAll(/.{76}/g, '$&\n');
    for (const at of [10, 76, 77, 150]) {
      const text = `${lines.slice(0, at)}\u001b[0m${lines.slice(at)}`;
      for (const size of [1, 50, 10_000]) expect(sanitize(through(text, secrets(key), size)).length).toBeLessThan(20);
      expect(sanitize(redactText(text, secrets(key))).length).toBeLessThan(20);
    }
  });

  test('does not become one text if the sequence is longer than sanitize removes', () => {
    const text = `hunter2-\u001b]0;${'x'.repeat(20_000)}\u0007hünter2`;
    expect(sanitize(through(text, secrets(SECRET), 1_000))).toBe('hunter2-␛hünter2');
    expect(sanitize(redactText(text, secrets(SECRET)))).toBe('hunter2-␛hünter2');
  });

  describe('is found in the rest of a sequence that does not end', () => {
    const [HEAD, TAIL] = ['hunter2', '-hünter2'];
    const BROKEN: Readonly<Record<string, string>> = {
      'a title that a color cuts': `\u001b]${HEAD}\u001b[m${TAIL}`,
      'a title that a C1 color cuts': `\u001b]${HEAD}\u009bm${TAIL}`,
      'a C1 title that a color cuts': `\u009d${HEAD}\u001b[31m${TAIL}`,
      'a device string that a title cuts': `\u001bP${HEAD}\u001b]0;x\u0007${TAIL}`,
      'a title of more characters than sanitize removes': `\u001b]${'x'.repeat(4_200)}${HEAD}\u001b[m${TAIL}`,
      'a title with the secret at that limit': `\u001b]${'x'.repeat(4_085)}${HEAD}\u001b[m${TAIL}`,
      'a C1 string with a character of its first byte': `\u0098h\u00a0${HEAD}\u009bm${TAIL}`,
      'a title with a part of a character': `\u001b]ä${HEAD}\u001b]\u00a0\u001b\\${TAIL}`,
    };

    test.each(Object.entries(BROKEN))('%s', (_name, broken) => {
      // The first character of the secret makes the scan follow the sequence.
      const text = `h${broken}!`;
      expect(sanitize(text)).toContain(SECRET);
      for (const size of [1, 2, 7, 10_000])
        expect(sanitize(through(text, secrets(SECRET), size))).toMatch(/\[redacted\]!$/);
      expect(sanitize(redactText(text, secrets(SECRET)))).toMatch(/\[redacted\]!$/);
    });

    test('a part of a character, whose next byte begins a sequence', () => {
      const bytes = [`h\u001b]`, [0xc2], `\u001b\\${HEAD}\u001b[m${TAIL}!\u0007`].map((part) =>
        Buffer.from(part as string),
      );
      const text = Buffer.concat(bytes);
      for (const size of [1, 3, 10_000]) {
        const stream = createRedactor(secrets(SECRET)).stream();
        const pieces = [];
        for (let at = 0; at < text.length; at += size) pieces.push(...stream.push(text.subarray(at, at + size)));
        pieces.push(...stream.flush());
        expect(sanitize(Buffer.concat(pieces.map((piece) => piece.bytes)).toString())).not.toContain(SECRET);
      }
    });
  });

  test('does not stay in random text with sequences', () => {
    let seed = 11;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const signs = [...'abab\u001b[]\u0007\\\n0mP(', '\u009b', '\u009c', '\u00a0'];
    let found = 0;
    for (let value = 0; value < 16; value += 1) {
      const secret = Array.from({ length: 6 }, () => 'ab'[random(2)]).join('');
      const redactor = createRedactor(secrets(secret));
      for (let round = 0; round < 500; round += 1) {
        const count = round % 2 === 0 ? 6 : signs.length;
        const text = Array.from({ length: random(60) }, () => signs[random(count)]!).join('');
        if (sanitize(text).includes(secret) && !text.includes(secret)) found += 1;
        const size = 1 + random(9);
        const stream = redactor.stream();
        const bytes = Buffer.from(text);
        const pieces = [];
        for (let at = 0; at < bytes.length; at += size) pieces.push(...stream.push(bytes.subarray(at, at + size)));
        pieces.push(...stream.flush());
        const streamed = Buffer.concat(pieces.map((piece) => Buffer.from(piece.bytes))).toString();
        for (const redacted of [streamed, redactor.text(text)])
          expect(sanitize(redacted), JSON.stringify({ text, secret })).not.toContain(secret);
      }
    }
    expect(found).toBeGreaterThan(20);
  });

  test('costs as much for a long secret as for a short one', async () => {
    const key = Array.from({ length: 8_000 }, (_, index) => String.fromCharCode(97 + ((index * 7_919) % 26))).join('');
    const costOf = (secret: string): Promise<number> => {
      const stream = createRedactor(secrets(secret)).stream();
      const begun = `${secret.slice(0, -1).replaceAll(/(?<=.)(?=.)/g, '\u001b[m')}!`;
      const bytes = Buffer.from(begun.repeat(Math.ceil(200_000 / begun.length)).slice(0, 200_000));
      stream.push(Buffer.from('the automaton is built'));
      return cpuMsOf(() => {
        for (let at = 0; at < bytes.length; at += 16_384) stream.push(bytes.subarray(at, at + 16_384));
      });
    };
    const short = await costOf(key.slice(0, 100));
    // A cost that grows with each begun character is 40 times as much.
    expect(await costOf(key)).toBeLessThan(8 * short + 100);
  });

  test('does not hold back a sequence without an end', () => {
    const stream = createRedactor(secrets(SECRET)).stream();
    const text = Buffer.from(`hunter2-\u001b]0;${'x'.repeat(100_000)}`);
    const given = stream.push(text).reduce((sum, { from, to }) => sum + to - from, 0);
    expect(given).toBe(text.length);
  });
});

test('a stream counts the redacted secrets by name', () => {
  const known: Secret[] = [
    { name: 'A', value: 'hunter2-one' },
    { name: 'B', value: 'hunter2-two' },
    { name: 'SAME_AS_B', value: 'hunter2-two' },
    { name: 'C', value: 'hunter2-one-more' },
  ];
  for (const size of [1, 5, 1_000]) {
    const stream = createRedactor(known).stream();
    const text = Buffer.from(
      `hunter2-one hunter2-two ${Buffer.from('hunter2-two').toString('base64')} hunter2-one hunter\u001b[0m2-one`,
    );
    for (let at = 0; at < text.length; at += size) stream.push(text.subarray(at, at + size));
    stream.flush();
    expect([...stream.counts()].toSorted()).toEqual([
      ['A', 3],
      ['B', 2],
      ['SAME_AS_B', 2],
    ]);
  }
  expect(createRedactor([]).stream().counts().size).toBe(0);
});

test('the padding of base64 is redacted with the secret', () => {
  expect(redactText(`<${Buffer.from('hunter2').toString('base64')}>`, secrets('hunter2'))).toBe(`<${REDACTED}>`);
});

test('the end of a line is not held back for what may follow', () => {
  // `a` begins the secret in base64: in a line of this length it is an ordinary letter.
  const stream = createRedactor(secrets('hunter2-hunter2', 'Zunter2-hunter2')).stream();
  const line = Buffer.from('waiting for input a\n');
  expect(Buffer.concat(stream.push(line).map(({ bytes }) => bytes)).toString()).toBe('waiting for input a\n');
});

test('line breaks without an end are not held back', () => {
  const value = 'hunter2-hunter2';
  const stream = createRedactor(secrets(value)).stream();
  const begun = `${'x'.repeat(80)}${Buffer.from(value).toString('base64').slice(0, 6)}`;
  for (const end of ['\r', '\n', '\r\n'])
    for (let round = 0; round < 100; round += 1) {
      const text = Buffer.from(`${begun}${end.repeat(1_000)}`);
      const given = [...stream.push(text)].reduce((sum, { from, to }) => sum + to - from, 0);
      expect(given).toBeGreaterThan(text.length - 200);
    }
});

test('the end of a stream that is read from its reach on shows no part of a secret', () => {
  const value = 'x9'.repeat(2_000);
  const redactor = createRedactor(secrets(value));
  for (const form of [
    value,
    Buffer.from(value).toString('base64').replaceAll(/.{57}/g, '$&\r\n'),
    encodeURIComponent(value),
  ])
    expect(Buffer.byteLength(form)).toBeLessThanOrEqual(redactor.reach);
});

test('short values are named, not redacted', () => {
  const redactor = createRedactor(secrets('12345', '', '123456'));
  expect(redactor.tooShort).toEqual(['S0']);
  expect(redactor.text('12345 123456')).toBe(`12345 ${REDACTED}`);
});

test('without secrets everything passes', () => {
  expect(through('hello', [], 2)).toBe('hello');
});

test.each([
  '\u001b',
  '\u001b[',
  '\u001b[3',
  '\u001b#',
  '\u009b',
  '\u001b]0;',
  '\u001bP',
  '\u009d8;;',
  '\u001b]0;\u001b',
])('a mark behind the begun sequence %j shows neither the secret nor a control character', (begun) => {
  const known = secrets('wholesecret');
  const printed = `before ${begun}wholesecret\u0007 after\n`;
  for (const redacted of [redactText(printed, known), through(printed, known, 3)]) {
    const shown = sanitize(redacted);
    expect(shown).not.toContain('wholesecret');
    expect(shown).toMatch(/^before .*after\n$/);
    // eslint-disable-next-line no-control-regex -- control characters are the subject
    expect(shown).not.toMatch(/[\0-\t\v-\u001f\u007f-\u009f]/);
  }
});
