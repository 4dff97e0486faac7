/** Where consumer groups stand on both sides, and what a move to the target would repeat or skip. */

import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { icon } from "../parts/icons.js";
import { note } from "../parts/parts.js";
import { plainTable } from "../parts/plaintable.js";

const NOT_COMMITTED = "not committed on the target";

/** A table of commits on both sides, partition by partition. */
export function standTable(stands) {
  if (!stands.length) return note("No group matches.");
  return plainTable({
    label: "Groups",
    kind: "stands",
    word: "partition",
    rows: stands,
    keyOf: (one) => `${one.group} ${one.topic} ${one.partition}`,
    columns: [
      { head: "Group", cell: (one) => one.group },
      { head: "Partition", cell: (one) => `${one.topic}-${one.partition}` },
      { head: "On the source", number: true, cell: (one) => format.offset(one.source_offset) },
      { head: "Is on the target", number: true, cell: (one) => format.offset(one.target_offset) },
      { head: "Committed there", number: true, cell: (one) => format.offset(one.stored) },
      { head: "A move would", kind: "words", cell: moveText },
    ],
  });
}

/** Says what the consumers of a partition would read again if they moved. */
function moveText(stand) {
  if (stand.why && stand.why !== NOT_COMMITTED)
    return h("span", { class: "bad" }, icon("attention"), ` not be exact: ${stand.why}`);
  if (stand.target_offset < 0) return "begin where the consumer's own setting says";
  if (stand.stored < 0) return "be exact after a failover; now there is no commit on the target";
  const repeats = stand.target_offset - stand.stored;
  if (repeats > 0) return `repeat ${format.counted(repeats, "record")} now, none after a failover`;
  if (repeats < 0) return `skip ${format.counted(-repeats, "record")}: the target is ahead`;
  return "repeat nothing";
}
