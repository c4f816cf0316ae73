/** Returns a line of a schedule for people. One that restricts both days came from a calendar, whose fields all hold. */
export function describeCronLine(line: string): string {
  const [, , day, , weekday] = line.split(' ');
  return day !== '*' && weekday !== '*' ? `calendar ${line}` : line;
}
