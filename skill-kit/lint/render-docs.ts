import { RULES } from './rules.ts';

const HEAD = '| rule | severity | what is wrong | what to do |\n|---|---|---|---|';

/** Between `<!-- rules -->` and `<!-- end -->` of docs/reference/skill-lint.md stands a row for each rule; the text with all of them written anew. */
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
