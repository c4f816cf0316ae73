import { RULES } from './rules.ts';

const HEAD = '| rule | severity | what is wrong | what to do |\n|---|---|---|---|';

/**
 * Returns the text of docs/reference/skill-lint.md with new rows, one for each rule, between `<!-- rules -->` and `<!-- end -->`.
 */
export function writeRules(text: string): string {
  const place = /(<!-- rules -->\n)[^]*?(<!-- end -->)/;
  if (!place.test(text))
    throw new Error('docs/reference/skill-lint.md has no place for the rules: write <!-- rules --> and <!-- end -->');
  const rows = RULES.map(({ code, severity, about, remedy }) =>
    [`\`${code}\``, severity, about, remedy].map((cell) => cell.replaceAll('|', '\\|')).join(' | '),
  );
  return text.replace(place, (_whole, begin: string, end: string) =>
    [`${begin}${HEAD}`, ...rows.map((row) => `| ${row} |`), end].join('\n'),
  );
}
