/** The facts that a rewritten page must keep: its error codes, options, variables and numbers. */

export const FACT_KINDS = ['codes', 'options', 'variables', 'quantities'] as const;
export type FactKind = (typeof FACT_KINDS)[number];
export type Facts = Readonly<Record<FactKind, readonly string[]>>;

/** Unit of each spelling. */
const UNITS: Readonly<Record<string, string>> = {
  B: 'B',
  byte: 'B',
  bytes: 'B',
  KB: 'KB',
  KiB: 'KiB',
  MB: 'MB',
  MiB: 'MiB',
  GB: 'GB',
  GiB: 'GiB',
  ms: 'ms',
  s: 's',
  second: 's',
  seconds: 's',
  minute: 'min',
  minutes: 'min',
  hour: 'h',
  hours: 'h',
  day: 'd',
  days: 'd',
};

/** `15 minutes`, also `15 or 20 minutes` (both), `1,024 MiB`. */
const QUANTITY = new RegExp(
  `(?<![\\w.,])(\\d[\\d,]*(?:\\.\\d+)?)(?:(?: to | or | and |–)(\\d[\\d,]*(?:\\.\\d+)?))?[ \\u00a0]?(${Object.keys(UNITS).join('|')})(?![\\w/])`,
  'g',
);

/** A large number without a unit, such as `10,000` files or the port `11434`, but no part of a date, a version or a name. */
const NUMBER = /(?<![\w.,:/#-])(\d{3,}|\d{1,3}(?:,\d{3})+)(?![\w:/-]|[.,]\d)/g;

/** The facts of a page, sorted. `areas` are the words before the slash of error codes. */
export function readFacts(page: string, areas: ReadonlySet<string>): Facts {
  const text = page.replace(/<!--[^]*?-->/g, '').replace(/\]\([^)]*\)/g, ']');
  const codes = [...text.matchAll(/(?<![\w/.-])([a-z]+)\/[a-z]+(?:-[a-z]+)*(?![\w/.*-])/g)].filter(([, area]) =>
    areas.has(area!),
  );
  const options = text.matchAll(/(?<![\w-])--[a-z0-9][a-z0-9-]*/g);
  const variables = text.matchAll(/(?<![\w$])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/])/g);
  const quantities = [...text.matchAll(QUANTITY)].flatMap(([, first, second, unit]) =>
    [first, second]
      .filter((value) => value !== undefined)
      .map((value) => `${value.replaceAll(',', '')} ${UNITS[unit!]}`),
  );
  const prose = text.replace(/^(```|~~~)[^]*?^\1/gm, '').replace(QUANTITY, '');
  const numbers = [...prose.matchAll(NUMBER)].map(([number]) => number.replaceAll(',', ''));
  return {
    codes: sortOnce(codes.map(([code]) => code)),
    options: sortOnce([...options].map(([option]) => option)),
    variables: sortOnce([...variables].map(([name]) => name)),
    quantities: sortOnce([...quantities, ...numbers]),
  };
}

function sortOnce(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].toSorted();
}
