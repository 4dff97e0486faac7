/** The partitions of a flow, as a table that the server filters and sorts. */

import { FlowTab } from "./page.js";
import { PartitionList } from "../flow/partitionlist.js";

export class PartitionsPage extends FlowTab {
  static tab = "partitions";

  constructor(app, params, query) {
    super(app, params);
    this.list = this.add(new PartitionList(this.flow, { query, changed: () => app.update() }));
  }

  body() {
    return this.list.view();
  }
}
