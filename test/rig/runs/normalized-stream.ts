/** A stream of an agent without what differs each time: ids are numbered in their order, times and ports are settled. */

const IDS = /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/g;
const TIMES = /"([a-z_]+_ms)":\d+(?:\.\d+)?/g;
const INSTANTS = /\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
const PORTS = /\b127\.0\.0\.1:\d+/g;

export function settled(stream: string): string {
  const ids = new Map<string, string>();
  const numbered = (id: string): string => {
    const known = ids.get(id) ?? `00000000-0000-4000-8000-${String(ids.size + 1).padStart(12, '0')}`;
    ids.set(id, known);
    return known;
  };
  return stream
    .replaceAll(IDS, numbered)
    .replaceAll(TIMES, '"$1":1')
    .replaceAll(INSTANTS, '2026-01-01T00:00:00.000Z')
    .replaceAll(PORTS, '127.0.0.1:8000');
}
